// SPDX-License-Identifier: Apache-2.0
// The program as its users meet it: help, good paths, bad input, exit statuses.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "support/temp_dir.h"

namespace commands_test {

using headrace::test::contains;
using headrace::test::Outcome;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::Tool;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A failure says one line, to people, and nothing on the standard output.
void check_refused(const Outcome& outcome, int status, const std::string& part) {
  CAPTURE(outcome.errors);
  CHECK(outcome.status == status);
  CHECK(outcome.output.empty());
  CHECK(lines_of(outcome.errors).size() == 1);
  CHECK(outcome.errors.rfind("headrace: ", 0) == 0);
  CHECK(contains(outcome.errors, part));
}

// An ImageFolder of two classes: a/0.jpg .. a/4.jpg, b/0.jpg .. b/4.jpg.
struct DataSet : TempDir {
  DataSet() {
    for (const char* name : {"a", "b"}) {
      for (int i = 0; i < 5; ++i) static_cast<void>(write(std::string(name) + "/" + std::to_string(i) + ".jpg", "x"));
    }
  }
  [[nodiscard]] std::string source() const { return path().string(); }
};

std::vector<std::string> command_names(const Tool& tool) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of(tool({"--help"}).output)) {
    if (line.rfind("  ", 0) == 0 && line[2] >= 'a' && line[2] <= 'z')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

}  // namespace

TEST_CASE("every help page fits 80 columns and has a usage line") {
  const Tool tool;
  const std::vector<std::string> names = command_names(tool);
  REQUIRE(std::find(names.begin(), names.end(), "order") != names.end());
  for (const std::string& line : lines_of(tool({"--help"}).output)) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    const Outcome outcome = tool({name, "--help"});
    CHECK(outcome.status == 0);
    CHECK(outcome.errors.empty());
    CHECK(contains(outcome.output, "Usage: headrace " + name));
    for (const std::string& line : lines_of(outcome.output)) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("the version is told") {
  const Outcome outcome = Tool()({"--version"});
  CHECK(outcome.status == 0);
  CHECK(outcome.output.rfind("headrace ", 0) == 0);
  CHECK(Tool()({"version"}).output == outcome.output);
}

TEST_CASE("help is given for the word help, too") {
  const Tool tool;
  CHECK(tool({"help"}).output == tool({"--help"}).output);
  CHECK(tool({"help", "tier", "ls"}).output == tool({"tier", "ls", "--help"}).output);
  CHECK(contains(tool({"help", "tier", "ls"}).output, "Example:\n  headrace tier ls /nvme/headrace"));
}

TEST_CASE("a source without samples is refused: it is most likely not mounted") {
  const Tool tool;
  const TempDir empty;
  const std::string source = empty.path().string();
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"read", source},
                                                    {"simulate", source},
                                                    {"order", source, "--order", "sequential"},
                                                    {"diagnose", source, "--seconds", "1"},
                                                    {"warm", source, "--ssd", tier}}) {
    CAPTURE(arguments.front());
    check_refused(tool(arguments), 1, "holds no samples");
  }
}

TEST_CASE("a command line that makes no sense ends with 2 and says where to look") {
  const Tool tool;
  const DataSet data;
  check_refused(tool({}), 2, "headrace --help");
  check_refused(tool({"dance"}), 2, "headrace --help");
  check_refused(tool({"order"}), 2, "headrace order --help");
  check_refused(tool({"order", data.source(), "--order", "sequential", "--epoch", "-1"}), 2, "--epoch: '-1'");
  check_refused(tool({"order", data.source(), "--order", "sequential", "--colour"}), 2, "--colour");
  check_refused(tool({"unmout", "/mnt"}), 2, "no command 'unmout', did you mean unmount? see headrace --help");
  check_refused(tool({"tier", "sl"}), 2, "no command 'sl', did you mean ls? see headrace tier --help");
  check_refused(tool({"mount", "/a", "/b", "--rma", "1G"}), 2,
                "no option --rma, did you mean --ram? see headrace mount");
  check_refused(tool({"order", "show", "/a", "/b"}), 2, "'/b' is one argument too many; see headrace order show");
  check_refused(tool({"mount", "/a", "/b", "--ram"}), 2, "--ram needs a value; see headrace mount --help");
  check_refused(tool({"mount", "/a", "/b", "--ram", "1G", "--ram", "2G"}), 2, "--ram takes one value only; see");
  check_refused(tool({"mount", "/a", "/b", "--foreground=maybe"}), 2, "--foreground = maybe makes no sense; see");
  check_refused(tool({"tier", "ls"}), 2, "PATH is required; see headrace tier ls --help");
}

TEST_CASE("order lists the kinds of orders with their parameters and an example each") {
  const Outcome outcome = Tool()({"order", "--list"});
  CHECK(outcome.status == 0);
  CHECK(outcome.output.find("torch-distributed:seed=0,replicas=8,rank=3") != std::string::npos);
  CHECK(outcome.output.find("even_batches") != std::string::npos);
}

TEST_CASE("order prints paths or indices of an epoch") {
  const Tool tool;
  const DataSet data;
  const Outcome paths = tool({"order", data.source(), "--order", "sequential"});
  CHECK(paths.status == 0);
  REQUIRE(lines_of(paths.output).size() == 10);
  CHECK(lines_of(paths.output).front() == "a/0.jpg");
  CHECK(lines_of(paths.output).back() == "b/4.jpg");

  const Outcome two = tool({"order", data.source(), "--order", "sequential", "-n", "2", "--print", "index"});
  CHECK(two.output == "0\n1\n");

  const Outcome first = tool({"order", data.source(), "--order", "torch-distributed:seed=0", "--print", "index"});
  const Outcome second =
      tool({"order", data.source(), "--order", "torch-distributed:seed=0", "--epoch", "1", "--print", "index"});
  CHECK(lines_of(first.output).size() == 10);
  CHECK(first.output != second.output);
}

TEST_CASE("order prints the records of a pack with where they lie") {
  const Tool tool;
  const TempDir packs;
  packs.write("rows.bin", std::string(32, 'x'));
  const auto order = [&](const std::string& records, const std::string& print) {
    return tool({"order", packs.path().string(), "--records", records, "--order", "sequential", "--print", print});
  };
  CHECK(order("stride=12,offset=8", "path").output == "rows.bin\t8\t12\nrows.bin\t20\t12\n");
  CHECK(order("stride=12,offset=8", "index").output == "0\n1\n");
  check_refused(order("stride=12", "path"), 1, "rows.bin: ");
  check_refused(order("auto", "path"), 2, "no such pack");
  packs.write("more.bin", "x");
  CHECK(order("stride=1", "path").output.starts_with("more.bin\t0\t1\nrows.bin\t0\t1\nrows.bin\t1\t1\n"));
}

TEST_CASE("order --check compares an order with a list of what was opened, and names what fits") {
  const Tool tool;
  const TempDir data;
  const TempDir lists;
  for (int i = 0; i < 300; ++i) data.write(fmt::format("c{}/{:03}.jpg", i % 3, i), "");
  const std::string source = data.path().string();
  const std::string read = tool({"order", source, "--order", "torch-distributed:seed=0", "--epoch", "1"}).output;
  const auto check = [&](const std::string& order, const std::string& opens) {
    return tool({"order", source, "--order", order, "--check", lists.write("opens", opens).string()});
  };

  const Outcome right = check("torch-distributed:seed=0", read);
  CAPTURE(right.errors);
  CHECK(right.status == 0);
  CHECK(right.output == "epoch 1 from position 0 on: 300 of 300 opens are where the order has them\n");

  std::string elsewhere;  // as a loader opens them through a mount, which looks at a file of its own first
  for (const std::string& line : lines_of(read)) elsewhere += "/mnt/train/" + line + "\n";
  const Outcome mounted = check("torch-distributed:seed=0", "/etc/hostname\n" + elsewhere);
  CHECK(mounted.status == 0);
  CHECK(contains(mounted.output, "1 names are of no sample; the first: /etc/hostname\n"));
  CHECK(contains(mounted.output, "300 of 300 opens"));

  const Outcome wrong = check("torch-distributed:seed=700", read);
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.errors, "open 0 was " + lines_of(read).front()));
  CHECK(contains(wrong.errors, "what fits is torch-distributed:seed=0"));
  CHECK(contains(wrong.errors, "from epoch 1 on"));

  check_refused(check("torch-distributed:seed=0", "c0/000.jpg\n"), 2, "24 are needed at least");
  check_refused(tool({"order", source, "--order", "sequential", "--check", "/nonexistent.txt"}), 1, "/nonexistent.txt");
  check_refused(tool({"order", source, "--order", "sequential", "--check", source}), 1, "no running headrace mount");
  check_refused(tool({"order", source, "--records", "auto", "--order", "sequential", "--check", source}), 2,
                "--records");
}

TEST_CASE("read, simulate and warm take the records of packs as samples") {
  const Tool tool;
  const TempDir packs;
  std::string rows;
  for (int row = 0; row < 3000; ++row) rows += std::string(5000, static_cast<char>('a' + row % 26));
  packs.write("a.bin", rows);
  packs.write("b.bin", rows.substr(0, 50'000));
  const std::string source = packs.path().string();
  const auto read = [&](const std::string& order) {
    const Outcome outcome =
        tool({"read", source, "--records", "stride=5000", "--order", order, "--ram", "32M", "--checksum", "--json"});
    CAPTURE(outcome.errors);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.output)["epochs"][0];
  };
  const nlohmann::json sequential = read("sequential");
  CHECK(sequential["samples"] == 3010);
  CHECK(sequential["bytes"] == 3010 * 5000);
  CHECK(read("torch-random:seed=2")["xxh3"] == sequential["xxh3"]);

  const Outcome simulated = tool({"simulate", source, "--records", "stride=5000", "--order", "torch-random:seed=2",
                                  "--cache", "50%", "--policy", "never-evict", "--json"});
  CAPTURE(simulated.errors);
  const nlohmann::json row = nlohmann::json::parse(simulated.output)["rows"][0];
  CHECK(row["reads"].get<std::uint64_t>() % 3010 == 0);
  CHECK(row["hit_ratio"].get<double>() > 0.4);
  CHECK(row["hit_ratio"].get<double>() < 0.6);

  const TempDir lists;
  const std::string list = lists.write("numbers.txt", "3005\n3001\n").string();
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  const auto warm = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"warm", source, "--records", "stride=5000", "--ssd", tier, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tool(arguments);
  };
  const Outcome warmed = warm({"--list", list});
  CAPTURE(warmed.errors);
  REQUIRE(warmed.status == 0);
  CHECK(nlohmann::json::parse(warmed.output)["disk"]["wanted_bytes"] == 50'000);  // the second pack
  const nlohmann::json forecast = nlohmann::json::parse(warm({"--dry-run"}).output)["disk_forecast"];
  CHECK(forecast["wanted"]["samples"] == 2);
  CHECK(forecast["held"]["samples"] == 1);
}

TEST_CASE("order refuses what it cannot do, in one line") {
  const Tool tool;
  const DataSet data;
  check_refused(tool({"order", data.source() + "/missing", "--order", "sequential"}), 1, "missing");
  check_refused(tool({"order", data.source() + "/a/0.jpg", "--order", "sequential"}), 2, "not a folder");
  check_refused(tool({"order", data.source(), "--order", "dance"}), 2, "dance");
  check_refused(tool({"order", data.source(), "--order", "torch-distributed:sed=0"}), 2, "sed");
  check_refused(tool({"order", data.source(), "--order", "file:/nonexistent.txt"}), 1, "/nonexistent.txt");
  check_refused(tool({"order", data.source(), "--order", "sequential", "--print", "colour"}), 2, "--print");
  check_refused(tool({"order", data.source(), "--order", "sequential", "--listing", "alpha"}), 2, "--listing");
  const std::string list = data.write("../order-list.txt", "a/0.jpg\nb/9.jpg\n").string();
  check_refused(tool({"order", data.source(), "--order", "file:" + list}), 1, "b/9.jpg");
  std::filesystem::remove(list);
}

TEST_CASE("what is meant otherwise is answered with what to write") {
  const Tool tool;
  const DataSet data;
  check_refused(tool({"tier"}), 2, "a command is missing: ls, info, rm;");
  check_refused(tool({"config"}), 2, "a command is missing: check;");
  check_refused(tool({"completion", "tcsh"}), 2, "there is no 'tcsh'; choose one of bash|zsh|fish");
  check_refused(tool({"read", "http://host/data"}), 2, "a bucket is named s3://BUCKET/PREFIX");
  check_refused(tool({"synth", data.source()}), 2, "is not empty; give a new or an empty folder");
  check_refused(tool({"synth", (tool.home() / "new").string(), "--files", "0"}), 2, "--files 0: at least one");
}

TEST_CASE("a config file is checked, with the file, the option and the remedy named") {
  const Tool tool;
  const DataSet data;
  std::filesystem::create_directory(tool.home() / "mnt");
  const std::string places =
      "source = \"" + data.source() + "\"\nmountpoint = \"" + (tool.home() / "mnt").string() + "\"\n";
  const auto check = [&](const std::string& text) {
    const std::string file = data.write("../headrace-config.toml", text).string();
    return tool({"config", "check", file});
  };
  const Outcome good = check("# comment\n" + places + "ram = \"64M\"\nallow-other = true\nepoch = 3\n");
  CAPTURE(good.errors);
  CHECK(good.status == 0);
  CHECK(contains(good.output, "good"));
  const std::string odd = data.write("../odd # name/a/0.jpg", "x").parent_path().parent_path().string();
  const Outcome quoted =
      check("source = \"" + odd + "\"  # in quotes\nmountpoint = '" + (tool.home() / "mnt").string() + "'\n");
  CHECK(contains(quoted.output, "mounts " + odd + " at "));
  std::filesystem::remove_all(odd);
  check_refused(check(places + "rma = \"64M\"\n"), 2, "headrace-config.toml: no option 'rma'; write one of");
  check_refused(check(places + "ram = \"64X\"\n"), 2, "headrace-config.toml: --ram '64X'");
  check_refused(check(places + "epoch = \"soon\"\n"), 2, "headrace-config.toml: epoch");
  check_refused(check(places + "[tiers]\nssd = \"/x:1G\"\n"), 2, "line 3: [tiers]: there are no sections");
  check_refused(check("ram = \"64M\"\n"), 2, "SOURCE is missing");
  check_refused(check(places + "ram\n"), 2, "headrace-config.toml: line 3: 'ram' sets nothing; write name = value");
  check_refused(check(places + "ram = \"1G\"\nram = \"2G\"\n"), 2, "headrace-config.toml: line 4: 'ram' is set twice");
  check_refused(check(places + "ram = [\"1G\", \"2G\"]\n"), 2, "headrace-config.toml: ram: --ram takes one value only");
  check_refused(check(places + "allow-other = yes\n"), 2, "allow-other: write allow-other = true or false");
  CHECK(check(places + "ram = 64M\nssd = []\n").status == 0);
  check_refused(tool({"config", "check", data.source()}), 2, data.source() + ": this is a folder");
  std::filesystem::remove(data.path() / "../headrace-config.toml");
  check_refused(tool({"config", "check", "/nonexistent.toml"}), 2, "/nonexistent.toml");
}

TEST_CASE("doctor examines the machine and folders, for people and as JSON") {
  const Tool tool;
  const DataSet data;
  const Outcome text = tool({"doctor", data.source(), "--tier", "/nonexistent"});
  const bool is_missing = contains("\n" + text.output, "\nmissing ");
  CHECK(text.status == (is_missing ? 1 : 0));
  CHECK(contains(text.output, "io_uring"));
  CHECK(contains(text.output, "JPEG crops"));
  CHECK(contains(text.output, "good    tier /nonexistent"));
  CHECK(contains(text.output, "the folder is made when it is first used"));
  const Outcome missing = tool({"doctor", "--tier", "/nonexistent/tier"});
  CHECK(contains(missing.output, "-> mkdir -p /nonexistent\n"));
  CHECK(missing.status == 1);
  CHECK(std::count(missing.errors.begin(), missing.errors.end(), '\n') == 1);
  const nlohmann::json json = nlohmann::json::parse(tool({"doctor", "--json"}).output);
  REQUIRE(json["findings"].size() > 10);
  for (const nlohmann::json& finding : json["findings"]) {
    CHECK_FALSE(finding["name"].get<std::string>().empty());
    CHECK_FALSE(finding["text"].get<std::string>().empty());
    const std::string health = finding["health"];
    CHECK((health == "good" || health == "info" || health == "limit" || health == "missing"));
    CHECK((health != "limit" || !finding["remedy"].get<std::string>().empty()));
  }
}

TEST_CASE("simulate shows that never evicting holds its fraction and the least recently used does not") {
  const Tool tool;
  const DataSet data;
  const Outcome outcome = tool({"simulate", data.source(), "--cache", "50%", "--policy", "lru", "--policy",
                                "never-evict", "--order", "torch-distributed:seed=0", "--epochs", "20", "--json"});
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  const nlohmann::json rows = nlohmann::json::parse(outcome.output)["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["hit_ratio"] == 0.5);
  CHECK(rows[0]["hit_ratio"].get<double>() < 0.45);
  CHECK(contains(tool({"simulate", data.source()}).output, "never-evict"));
  check_refused(tool({"simulate", data.source(), "--policy", "best"}), 2, "--policy 'best'");
  check_refused(tool({"simulate", data.source(), "--cache", "lots"}), 2, "--cache 'lots'");
}

TEST_CASE("simulate --nodes says what nodes that share leave to the source") {
  const Tool tool;
  const DataSet data;
  const auto rows_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"simulate", data.source(), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = tool(words);
    CAPTURE(outcome.errors);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.output)["nodes"];
  };
  const nlohmann::json rows = rows_of({"--nodes", "1", "--nodes", "1024", "--share", "1G"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["nodes"] == 1);
  CHECK(rows[0]["source_reads"] == 0);
  CHECK(rows[0]["received_bytes"] == 0);
  CHECK(rows[1]["held_bytes"] == rows[0]["held_bytes"]);
  const nlohmann::json few = rows_of({"--peers", "n1,n2", "--share", "10%"});
  CHECK(few[0]["nodes"] == 2);
  CHECK(few[0]["source_reads"] > rows[0]["source_reads"]);
  CHECK(few[0]["own_ratio"] == 0);
  const nlohmann::json half = rows_of({"--peers", "n1,n2", "--share", "10%", "--ram", "50%"});
  CHECK(half[0]["own_ratio"].get<double>() == doctest::Approx(0.5).epsilon(0.01));
  CHECK(half[0]["source_reads"].get<double>() ==
        doctest::Approx(few[0]["source_reads"].get<double>() / 2).epsilon(0.1));
  CHECK(rows_of({"--peers", "n1,n2", "--share", "10%", "--ram", "100%"})[0]["source_reads"] == 0);
  check_refused(tool({"simulate", data.source(), "--nodes", "4", "--share", "1G", "--ram", "lots"}), 2, "--ram");
  check_refused(tool({"simulate", data.source(), "--ram", "4G"}), 2, "--nodes");
  CHECK(contains(tool({"simulate", data.source(), "--nodes", "4", "--share", "1G"}).output, "source reads"));
  check_refused(tool({"simulate", data.source(), "--nodes", "4"}), 2, "--share");
  check_refused(tool({"simulate", data.source(), "--share", "4G"}), 2, "--nodes");
  check_refused(tool({"simulate", data.source(), "--nodes", "0", "--share", "1G"}), 2, "--nodes 0");
  check_refused(tool({"simulate", data.source(), "--nodes", "1025", "--share", "1G"}), 2, "--nodes 1025");
}

TEST_CASE("simulate counts files of 4 GiB and more in full") {
  const Tool tool;
  const TempDir folder;
  for (const auto& [name, gibibytes] : {std::pair{"a.bin", 12}, {"b.bin", 4}, {"c.bin", 4}}) {
    std::filesystem::resize_file(folder.write(name, ""), std::uintmax_t(gibibytes) << 30);  // holes
  }
  const Outcome outcome = tool({"simulate", folder.path().string(), "--cache", "12G", "--policy", "never-evict",
                                "--order", "sequential", "--json"});
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  const nlohmann::json row = nlohmann::json::parse(outcome.output)["rows"][0];
  CHECK(row["hit_ratio"].get<double>() == doctest::Approx(1.0 / 3));  // the first one, and nothing beside it
}

TEST_CASE("diagnose measures a source and says what bounds a training") {
  const Tool tool;
  const std::string directory = (tool.home() / "photos").string();
  REQUIRE(tool({"synth", directory, "--files", "20", "--classes", "2"}).status == 0);
  const Outcome outcome = tool({"diagnose", directory, "--seconds", "1", "--json"});
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  const nlohmann::json json = nlohmann::json::parse(outcome.output);
  CHECK(json["source_samples_per_second"].get<double>() > 0);
  CHECK(json["decode_samples_per_second"].get<double>() > 0);
  CHECK(json["direct_samples_per_second"].get<double>() > 0);
  CHECK(json["workers"] == 4);
  const nlohmann::json& rows = json["prospects"];
  REQUIRE(rows.size() >= 2);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i]["samples_per_second"] != rows[i - 1]["samples_per_second"]);  // none says what the one before says
  }
  const double now = rows[rows.size() - 2]["samples_per_second"];
  CHECK(rows.back()["samples_per_second"].get<double>() == doctest::Approx(2 * now));  // decoding bounds both
  CHECK_FALSE(json["verdict"].get<std::string>().empty());
  check_refused(tool({"diagnose", directory, "--", "true"}), 2, "through a mount");
  check_refused(tool({"diagnose", directory, "--workers", "0"}), 2, "--workers 0");
}

TEST_CASE("diagnose measures a disk tier, and predicts with what it gives") {
  const Tool tool;
  const std::string photos = (tool.home() / "photos").string();
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  REQUIRE(tool({"synth", photos, "--files", "20", "--classes", "2"}).status == 0);
  const auto diagnose = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"diagnose", photos, "--seconds", "1", "--json"});
    const Outcome outcome = tool(options);
    CAPTURE(outcome.errors);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.output);
  };
  CHECK(diagnose({})["tier_samples_per_second"] == 0);
  const nlohmann::json json = diagnose({"--ssd", tier});
  CHECK(json["tier_samples_per_second"].get<double>() > 0);
  CHECK(json["tier_bytes_per_second"].get<double>() > json["tier_samples_per_second"].get<double>());
  const Outcome text = tool({"diagnose", photos, "--seconds", "1", "--ssd", tier});
  CHECK(contains(text.output, "held on these tiers"));
}

TEST_CASE("saved catalogs are listed by their sources, and removed by name, where the source is gone, or all") {
  const Tool tool;
  const std::string home = tool.home().string();
  const auto listed = [&] { return nlohmann::json::parse(tool({"cache", "ls", "--json"}).output)["catalogs"]; };
  CHECK(listed().empty());
  CHECK(contains(tool({"cache", "ls"}).output, "0 saved catalogs"));
  for (const char* name : {"one", "two", "three"}) {
    REQUIRE(tool({"synth", home + "/" + name, "--files", "7", "--classes", "1"}).status == 0);
    REQUIRE(tool({"order", home + "/" + name, "--order", "sequential"}).status == 0);
  }
  REQUIRE(listed().size() == 3);
  for (const nlohmann::json& each : listed()) {
    CHECK(each["source"].get<std::string>().starts_with(home));
    CHECK(each["samples"] == 7);
    CHECK(each["entries"] == 9);
    CHECK(std::filesystem::file_size(each["file"].get<std::string>()) == each["bytes"]);
  }
  check_refused(tool({"cache", "rm"}), 2, "--all");
  check_refused(tool({"cache", "rm", home + "/four"}), 1, "no catalog of");
  CHECK(tool({"cache", "rm", home + "/one"}).status == 0);
  CHECK(listed().size() == 2);
  CHECK(tool({"cache", "rm", "--missing"}).status == 0);
  CHECK(listed().size() == 2);
  std::filesystem::remove_all(home + "/two");
  CHECK(tool({"cache", "rm", "--missing"}).status == 0);
  REQUIRE(listed().size() == 1);
  CHECK(listed()[0]["source"] == home + "/three");

  const std::string file = listed()[0]["file"];
  std::filesystem::resize_file(file, 60);  // torn
  CHECK(contains(listed()[0]["problem"].get<std::string>(), file));
  CHECK(contains(tool({"cache", "ls"}).output, file));
  CHECK(tool({"order", home + "/three", "--order", "sequential"}).status == 0);  // scanned anew
  CHECK(tool({"cache", "rm", "--all"}).status == 0);
  CHECK(listed().empty());
}

TEST_CASE("tier and verify refuse what is no tier") {
  const Tool tool;
  const DataSet data;
  for (const char* verb : {"ls", "info", "rm"}) {
    check_refused(tool({"tier", verb, data.source()}), 1, "holds no tier");
    check_refused(tool({"tier", verb, "/tmp"}), 1, "holds no tier");  // before it says that others may write there
  }
  check_refused(tool({"verify", data.source() + "/missing"}), 1, "missing");
  CHECK(std::filesystem::exists(data.path() / "a" / "0.jpg"));
}

TEST_CASE("warm fills a disk tier that read then uses, and tools look into it") {
  const Tool tool;
  const DataSet data;
  const std::string folder = (tool.home() / "tier").string();
  const std::string tier = folder + ":64M";
  const Outcome forecast = tool({"warm", data.source(), "--ssd", folder + ":5B", "--dry-run"});
  CHECK(contains(forecast.output, "10 samples, 10 B wanted; 0 (0 B) held; room for 5 B; 5 (5 B) to fetch"));
  CHECK(contains(forecast.output, "predicted hit ratio 0.50"));
  CHECK_FALSE(std::filesystem::exists(folder));
  const Outcome warmed = tool({"warm", data.source(), "--ssd", tier});
  CAPTURE(warmed.errors);
  CHECK(warmed.status == 0);
  CHECK(contains(warmed.output, "10 samples"));
  const Outcome read = tool({"read", data.source(), "--ssd", tier, "--ram", "16M", "--json"});
  const nlohmann::json tiers = nlohmann::json::parse(read.output)["store"]["tiers"];
  CHECK(tiers[1]["kind"] == "ssd");
  CHECK(tiers[1]["hits"] == 10);
  CHECK(tiers.back()["hits"] == 0);
  CHECK(contains(tool({"tier", "ls", folder}).output, data.source()));
  CHECK(nlohmann::json::parse(tool({"tier", "info", folder, "--json"}).output)["data_sets"][0]["records"] == 10);
  CHECK(contains(tool({"verify", folder}).output, "10 records"));
  const Outcome listed = tool({"warm", data.source(), "--ssd", tier, "--list", "-"}, "a/1.jpg\nb/2.jpg\n");
  CAPTURE(listed.errors);
  CHECK(listed.status == 0);
  CHECK(contains(listed.output, "2 samples"));
  check_refused(tool({"warm", data.source(), "--ssd", tier, "--list", "-"}, "a/1.jpg\nc/9.jpg\n"), 1, "c/9.jpg");
  CHECK(tool({"tier", "rm", folder}).status == 0);
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("warm makes the indexes of JPEGs, from a source and from its tier") {
  const Tool tool;
  const std::string photos = (tool.home() / "photos").string();
  REQUIRE(tool({"synth", photos, "--files", "12", "--classes", "2"}).status == 0);
  const Outcome made = tool({"warm", photos, "--index", "--list", "-"}, "0\n3\n3\n");
  CAPTURE(made.errors);
  CHECK(made.status == 0);
  CHECK(contains(made.output, "indexes of 2 JPEGs in "));
  CHECK_FALSE(contains(made.output, "there already"));
  CHECK(std::filesystem::exists(tool.home() / "cache" / "crop-indexes" / "indexes-1"));
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  const Outcome both = tool({"warm", photos, "--index", "--ssd", tier});
  CHECK(both.status == 0);
  CHECK(contains(both.output, "12 samples, "));
  CHECK(contains(both.output, "indexes of 12 JPEGs in "));
  CHECK(contains(both.output, "2 of them there already"));

  const DataSet texts;
  CHECK(contains(tool({"warm", texts.source(), "--index"}).output, "indexes of 0 JPEGs"));
  check_refused(tool({"warm", photos, "--index", "--rate-limit", "1M"}), 2, "--rate-limit");
  check_refused(tool({"warm", photos, "--index", "--dry-run"}), 2, "--index");
}

TEST_CASE("warm names what it cannot warm") {
  const Tool tool;
  const DataSet data;
  check_refused(tool({"warm", data.source() + "/missing"}), 1, "/missing: No such file or directory");
  check_refused(tool({"warm", data.source() + "/a/0.jpg"}), 2, "/a/0.jpg is not a folder");
  check_refused(tool({"warm", data.source()}), 2, "name the tier to fill");
  const std::string nowhere = (tool.home() / "disk").string();
  check_refused(tool({"warm", data.source(), "--ssd", nowhere + "/tier:64M"}), 1,
                "the folder " + nowhere + " does not exist; is its disk mounted?");
}

TEST_CASE("warm says what is held and what is missing, and goes on where it was stopped") {
  const Tool tool;
  const DataSet data;
  const std::string folder = (tool.home() / "tier").string();
  const std::vector<std::string> warm = {"warm", data.source(), "--ssd", folder + ":64M"};
  const auto with = [&](const std::vector<std::string>& more, const std::string& input = "") {
    std::vector<std::string> arguments = warm;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tool(arguments, input);
  };
  const Outcome nothing = with({"--check"});
  CHECK(nothing.status == 1);
  CHECK(contains(nothing.output, "0 of 10 samples"));
  CHECK(contains(nothing.errors, "10 samples are missing"));
  CHECK_FALSE(std::filesystem::exists(folder));

  std::vector<std::string> slow = warm;
  slow.insert(slow.end(), {"--rate-limit", "2B"});  // bytes a second, and each sample has one
  const auto child = tool.start(slow);
  const auto has_begun = [&] {  // before it does, the signal ends the opening, which says less
    if (!std::filesystem::exists(folder)) return false;
    const std::filesystem::directory_iterator files(folder);
    return std::any_of(begin(files), end(files),
                       [](const auto& file) { return file.path().filename().string().starts_with("segment-"); });
  };
  REQUIRE(headrace::test::wait_until(has_begun));
  child->signal(SIGINT);
  const Outcome stopped = child->wait();
  CHECK(stopped.status == 130);
  CHECK(contains(stopped.errors, "call again to go on"));

  const Outcome resumed = with({});
  CAPTURE(resumed.output);
  CHECK(resumed.status == 0);
  CHECK(contains(resumed.output, "10 samples"));
  CHECK(with({"--check"}).status == 0);
  CHECK(contains(with({}).output, "10 were there already"));
  CHECK(contains(with({"--dry-run"}).output, "10 (10 B) held; room for 64.0 MiB; 0 (0 B) to fetch"));

  std::filesystem::remove(data.path() / "a" / "1.jpg");
  static_cast<void>(data.write("a/1.jpg", "longer"));
  const Outcome changed = with({"--check"});
  CHECK(changed.status == 1);
  CHECK(contains(changed.output, "9 of 10 samples"));
}

TEST_CASE("warm takes the samples of a few epochs, with a seed") {
  const Tool tool;
  const DataSet data;
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  const auto dry_run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"warm", data.source(), "--ssd", tier, "--dry-run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tool(arguments);
  };
  const std::string rank = "torch-distributed:replicas=2,rank=0";
  CHECK(contains(dry_run({"--order", rank, "--seed", "3"}).output, " 5 samples"));
  CHECK(contains(dry_run({"--order", rank, "--seed", "3", "--epochs", "30"}).output, " 10 samples"));
  CHECK(contains(dry_run({"--seed", "3"}).output, " 10 samples"));
  CHECK(dry_run({"--order", rank, "--seed", "3"}).output == dry_run({"--order", rank + ",seed=3"}).output);
  check_refused(dry_run({"--order", rank + ",seed=3", "--seed", "3"}), 2, "leave --seed out");
  check_refused(dry_run({"--order", "sequential", "--seed", "3"}), 2, "seed");
  check_refused(dry_run({"--epochs", "0"}), 2, "--epochs 0");
  check_refused(dry_run({"--epochs", "1000"}), 2, "1 to 100");
  check_refused(dry_run({"--check"}), 2, "--check");
  check_refused(dry_run({"--list", "-", "--seed", "3"}), 2, "--list excludes");
  check_refused(dry_run({"--list", "-", "--epochs", "3"}), 2, "--epochs");
}

TEST_CASE("read prints rates, and JSON alone when asked") {
  const Tool tool;
  const DataSet data;
  const Outcome text = tool({"read", data.source(), "--epochs", "2", "--checksum", "--ram", "16M"});
  CAPTURE(text.errors);
  CHECK(text.status == 0);
  CHECK(contains(text.output, "epoch 1: 10 samples"));
  const nlohmann::json json =
      nlohmann::json::parse(tool({"read", data.source(), "--json", "--checksum", "--ram", "16M"}).output);
  CHECK(json["epochs"][0]["samples"] == 10);
  CHECK(json["epochs"][0]["bytes"] == 10);
  CHECK(json["epochs"][0]["cpu_seconds"].is_number());
  CHECK(contains(text.output, json["epochs"][0]["xxh3"].get<std::string>()));
  CHECK(json["store"]["tiers"].back()["kind"] == "source");
}

TEST_CASE("-v says on stderr what is done on the way, and nothing of it on stdout") {
  const Tool tool;
  const std::string photos = (tool.home() / "photos").string();
  const std::string tier = (tool.home() / "tier").string() + ":4M";
  REQUIRE(tool({"synth", photos, "--files", "60", "--classes", "2"}).status == 0);
  const std::vector<std::vector<std::string>> calls = {{"warm", photos, "--ssd", tier, "--json"},
                                                       {"warm", photos, "--ssd", tier, "--json", "-v"},
                                                       {"-v", "warm", photos, "--ssd", tier, "--json"}};
  for (const std::vector<std::string>& call : calls) {
    const Outcome outcome = tool(call);
    CAPTURE(outcome.errors);
    CHECK_FALSE(nlohmann::json::parse(outcome.output, nullptr, false).is_discarded());
    const bool is_verbose = std::find(call.begin(), call.end(), "-v") != call.end();
    CHECK(contains(outcome.errors, " info headrace[") == is_verbose);
  }
}

TEST_CASE("read reports samples that cannot be read and ends with 1") {
  const Tool tool;
  const DataSet data;
  std::filesystem::resize_file(data.path() / "a" / "1.jpg", 0);
  CHECK(tool({"read", data.source(), "--ram", "16M"}).status == 0);  // an empty file is no failure
  const Outcome decoded = tool({"read", data.source(), "--decode", "--ram", "16M"});
  CHECK(decoded.status == 1);
  CHECK(contains(decoded.errors, "10 samples could not be read"));
}

TEST_CASE("control characters in the names of files reach no terminal, no log and no error") {
  const Tool tool;
  const TempDir data;
  static_cast<void>(data.write("a/1\n\x1b[2J.jpg", "no image"));
  const Outcome decoded = tool({"read", data.path().string(), "--decode", "--ram", "16M"});
  CHECK(contains(decoded.errors, "a/1\\n\\x1b[2J.jpg"));
  CHECK_FALSE(contains(decoded.errors, "\x1b"));
  const Outcome missing = tool({"read", (data.path() / "\x1b[2J\x9b").string()});
  CHECK(contains(missing.errors, "\\x1b[2J\\x9b"));
  CHECK_FALSE(contains(missing.errors, "\x1b"));
  const std::vector<std::string> order = {"order", data.path().string(), "--order", "sequential"};
  CHECK(tool(order).output == "a/1\n\x1b[2J.jpg\n");  // a pipe gets the name as it is
  const auto shown = tool.start_on_terminal(order);
  CHECK(contains(shown->wait().output, "a/1\\n\\x1b[2J.jpg"));
}

TEST_CASE("catalogs that were used long ago make room") {
  const Tool tool;
  const DataSet data;
  const auto order = [&] { return tool({"order", data.source(), "--order", "sequential"}).status; };
  REQUIRE(order() == 0);
  const std::filesystem::path folder = tool.home() / "cache";
  const std::filesystem::path own = std::filesystem::directory_iterator(folder)->path();
  for (int i = 0; i < 70; ++i) std::ofstream(folder / ("old-" + std::to_string(i) + ".catalog")) << "x";
  REQUIRE(order() == 0);
  std::size_t left = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder)) ++left;
  CHECK(left <= 65);  // 64, and the one in use if it was the oldest
  CHECK(std::filesystem::exists(own));
}

TEST_CASE("read --profile prints the stages and one line of advice") {
  const Tool tool;
  const std::string photos = (tool.home() / "photos").string();
  REQUIRE(tool({"synth", photos, "--files", "6", "--classes", "3"}).status == 0);
  const Outcome read = tool({"read", photos, "--decode", "--profile", "--epochs", "2", "--ram", "16M"});
  CAPTURE(read.errors);
  CHECK(read.status == 0);
  CHECK(contains(read.errors, "12 samples (0 bad)"));
  for (const char* stage : {"read", "held back", "decode", "transform", "idle", "deliver", "consume"}) {
    CHECK(contains(read.errors, std::string("\n  ") + stage));
  }
  const std::string advice = lines_of(read.errors).back();
  const auto is_advice = [&](const char* name) { return advice.starts_with(std::string(name) + "-bound: "); };
  CHECK((is_advice("source") || is_advice("cache") || is_advice("decode") || is_advice("consumer")));
}

TEST_CASE("synth makes a data set and refuses a folder that has content") {
  const Tool tool;
  const std::string directory = (tool.home() / "photos").string();
  const Outcome made = tool({"synth", directory, "--files", "6", "--classes", "3", "--seed", "7"});
  CHECK(made.status == 0);
  CHECK(made.output.empty());
  const Outcome listed = tool({"order", directory, "--order", "sequential"});
  CHECK(lines_of(listed.output).size() == 6);
  check_refused(tool({"synth", directory, "--files", "6"}), 2, directory);
}

TEST_CASE("a tier behind another user's symbolic link is refused, behind one's own it is used") {
  if (::geteuid() != 0) skip("needs root, to make a link of another user");
  const Tool tool;
  const DataSet data;
  const auto warm_by = [&](uid_t owner) {
    const std::filesystem::path link = tool.home() / ("link-" + std::to_string(owner));
    std::filesystem::create_directory(tool.home() / "disk");
    std::filesystem::create_directory_symlink(tool.home() / "disk", link);
    REQUIRE(::lchown(link.c_str(), owner, owner) == 0);
    return tool({"warm", data.source(), "--ssd", (link / "tier").string() + ":64M"});
  };
  constexpr uid_t kSomebody = 12345;
  check_refused(warm_by(kSomebody), 1, "symbolic link of another user");
  CHECK(std::filesystem::is_empty(tool.home() / "disk"));
  CHECK(warm_by(0).status == 0);
  check_refused(tool({"verify", (tool.home() / "link-12345/tier").string()}), 1, "symbolic link of another user");
  CHECK(tool({"verify", (tool.home() / "link-0/tier").string()}).status == 0);
}

TEST_CASE("a tier that is renamed while it is filled is filled where it is, not what takes its name") {
  const Tool tool;
  const DataSet data;
  const std::filesystem::path tier = tool.home() / "tier";
  const std::filesystem::path other = tool.home() / "other";
  std::filesystem::create_directory(other);
  const auto child =
      tool.start({"warm", data.source(), "--ssd", tier.string() + ":64M", "--rate-limit", "4B"});  // 10 bytes in all
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!std::filesystem::exists(tier / "tier") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::filesystem::rename(tier, tool.home() / "moved");
  std::filesystem::create_directory_symlink(other, tier);
  CHECK(child->wait().status == 0);
  CHECK(std::filesystem::is_empty(other));
  CHECK(contains(tool({"verify", (tool.home() / "moved").string()}).output, "10 records"));
}

TEST_CASE("a list without line ends is refused, and one that is no file where it has to be one") {
  const Tool tool;
  const DataSet data;
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  check_refused(tool({"order", data.source(), "--order", "file:/dev/zero"}), 2,
                "/dev/zero, line 1: has more than 8192");
  check_refused(tool({"warm", data.source(), "--ssd", tier, "--list", "/dev/zero"}), 2, "line 1: has more than 8192");
  check_refused(tool({"warm", data.source(), "--ssd", tier, "--list", "-"}, std::string(10'000, 'x')), 2, "8192 bytes");
  check_refused(tool({"read", data.source(), "--samples", "/dev/zero"}), 2, "/dev/zero: is no regular file");
  const std::string fifo = (tool.home() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  check_refused(tool({"read", data.source(), "--samples", fifo}), 2, "is no regular file");
}

}  // namespace commands_test
