// SPDX-License-Identifier: Apache-2.0
// Where access keys come from, and what happens when they end.
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/cache/source/object/command_output.h"
#include "headrace/cache/source/object/key_keeper.h"
#include "headrace/cache/source/object/key_sources.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/signature.h"
#include "headrace/io/secret.h"

#include "object_server.h"
#include "support/temp_dir.h"

namespace object_keys_test {
namespace {

using headrace::cache::command_output;
using headrace::cache::find_keys;
using headrace::cache::FoundKeys;
using headrace::cache::KeyKeeper;
using headrace::cache::ObjectClient;
using headrace::cache::ObjectRead;
using headrace::cache::ObjectStoreOptions;
using headrace::io::ErrorCode;
using headrace::io::Secret;
using headrace::io::Status;
using headrace::test::environment_of;
using headrace::test::ObjectServer;
using headrace::test::TempDir;
using Variables = std::map<std::string, std::string>;

constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

headrace::io::Result<std::optional<FoundKeys>> find(Variables variables, const std::string& profile = "") {
  variables.emplace("AWS_EC2_METADATA_DISABLED", "true");
  return find_keys({.environment = environment_of(variables), .profile = profile, .region = "us-east-1"});
}

FoundKeys found(const Variables& variables, const std::string& profile = "") {
  auto keys = find(variables, profile);
  REQUIRE_MESSAGE(keys.has_value(), (keys ? "" : keys.error().message()));
  REQUIRE(keys->has_value());
  return std::move(**keys);
}

std::string refusal(const Variables& variables, const std::string& profile = "") {
  const auto keys = find(variables, profile);
  REQUIRE_FALSE(keys.has_value());
  CHECK(keys.error().message().find(kSecret) == std::string::npos);
  return keys.error().message();
}

bool has(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

std::string in_seconds(int seconds) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string date = headrace::cache::amz_date(now + std::chrono::seconds(seconds));  // 20130524T000000Z
  return fmt::format("{}-{}-{}T{}:{}:{}Z", date.substr(0, 4), date.substr(4, 2), date.substr(6, 2), date.substr(9, 2),
                     date.substr(11, 2), date.substr(13, 2));
}

std::string service_keys(const std::string& id, int seconds) {
  return fmt::format(R"({{"service_keys": {{"AccessKeyId": "{}", "SecretAccessKey": "{}", "Token": "token-{}", )"
                     R"("Expiration": "{}"}}}})",
                     id, kSecret, id, in_seconds(seconds));
}

// A server that takes the keys which its services give out, and those of before unless they have expired.
void give_out(ObjectServer& server, const std::string& id, int seconds, const std::string& expired = "") {
  server.set(service_keys(id, seconds));
  server.set(fmt::format(R"({{"keys": {{"{0}": {{"secret": "{1}", "token": "token-{0}"}}, )"
                         R"("AKIDEXAMPLE": {{"secret": "{1}", "token": ""}}}}, "expired": ["{2}"]}})",
                         id, kSecret, expired));
}

Status read_one(ObjectClient& client, const char* key, std::size_t bytes) {
  std::string data(bytes, '\0');
  std::promise<Status> done;
  ObjectRead read{.key = key, .length = bytes, .into = reinterpret_cast<std::byte*>(data.data())};
  read.object_bytes = bytes;
  read.context = &done;
  read.on_done = [](ObjectRead& self, Status status) {
    static_cast<std::promise<Status>*>(self.context)->set_value(std::move(status));
  };
  client.read(read);
  return done.get_future().get();
}

}  // namespace

TEST_CASE("a secret is left out of core files") {
  const Secret secret(kSecret);
  const Secret copy = secret;
  CHECK(copy.bytes() == kSecret);
  CHECK(Secret().empty());
  std::string text = kSecret;
  const char* const where = text.data();
  CHECK(Secret::take(text).bytes() == kSecret);
  CHECK(where[0] == '\0');
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(secret.bytes().data()));
  bool is_here = false;
  bool is_left_out = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) {
      const auto low = std::stoull(line.substr(0, line.find('-')), nullptr, 16);
      const auto high = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
      const auto at = reinterpret_cast<std::uintptr_t>(secret.bytes().data());
      is_here = low <= at && at < high;
    }
    if (is_here && line.starts_with("VmFlags:")) is_left_out = line.find(" dd") != std::string::npos;
  }
  CHECK(is_left_out);
}

TEST_CASE("keys come from the environment") {
  const FoundKeys keys =
      found({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "t"}});
  CHECK(keys.keys.id == "A");
  CHECK(keys.keys.secret.bytes() == "s");
  CHECK(keys.keys.session_token.bytes() == "t");
  CHECK(keys.source == "environment");
  CHECK_FALSE(keys.expires.has_value());
  CHECK_FALSE(find({})->has_value());
}

TEST_CASE("keys come from a profile") {
  const TempDir dir;
  dir.write(".aws/credentials",
            "# a comment\n[default]\naws_access_key_id = A\naws_secret_access_key = s\n\n[train]\r\n"
            "aws_access_key_id=B\r\naws_secret_access_key=a=b\r\naws_session_token = t\r\n");
  dir.write(".aws/config",
            "[default]\nregion = eu-west-1\ns3 =\n  aws_access_key_id = not this\n[profile train]\n"
            "aws_access_key_id = nor this\n[profile half]\nregion = x\n[profile sso]\nsso_session = my\n");
  const Variables home = {{"HOME", dir.path()}};
  CHECK(found(home).keys.id == "A");
  const FoundKeys train = found(home, "train");
  CHECK(train.keys.id == "B");
  CHECK(train.keys.secret.bytes() == "a=b");
  CHECK(train.keys.session_token.bytes() == "t");
  CHECK(train.source == "profile train");
  Variables named = home;
  named["AWS_PROFILE"] = "train";
  CHECK(found(named).keys.id == "B");
  named["AWS_ACCESS_KEY_ID"] = "E";
  named["AWS_SECRET_ACCESS_KEY"] = "e";
  CHECK(found(named).keys.id == "E");
  CHECK(found(named, "train").keys.id == "B");  // an option goes first
  CHECK(has(refusal(home, "other"), "profile 'other' is not in"));
  CHECK(has(refusal(home, "sso"), "single sign-on"));
  CHECK_FALSE(find(home, "half")->has_value());
}

TEST_CASE("keys come from a program") {
  const TempDir dir;
  const auto config = [&](const std::string& command) {
    dir.write(".aws/config", "[default]\ncredential_process = " + command + "\n");
    return Variables{{"HOME", dir.path()}};
  };
  const FoundKeys keys = found(config(
      R"(echo '{"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "s\/", "Expiration": "2099-01-01T00:00:00Z"}')"));
  CHECK(keys.keys.id == "P");
  CHECK(keys.keys.secret.bytes() == "s/");
  CHECK(keys.expires.has_value());
  CHECK(has(refusal(config("exit 3")), "it ended with status 3"));
  CHECK(has(refusal(config("echo hello")), "the answer holds none"));
  CHECK(has(refusal(config("yes")), "its output is too long"));
}

TEST_CASE("a program that closes its output and does not end is ended") {
  const auto late = command_output("exec >&-; exec sleep 3600", std::chrono::milliseconds(200));
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == ErrorCode::kTimedOut);
}

TEST_CASE("keys come from a role, by the keys of another profile") {
  ObjectServer server;
  server.set(service_keys("ROLE", 3600));
  const TempDir dir;
  dir.write(".aws/config",
            fmt::format("[profile base]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = {}\n"
                        "[profile wrong]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = no\n"
                        "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"
                        "[profile self]\nrole_arn = r\nsource_profile = self\naws_access_key_id = AKIDEXAMPLE\n"
                        "aws_secret_access_key = {}\n"
                        "[profile refused]\nrole_arn = r\nsource_profile = wrong\n"
                        "[profile one]\nrole_arn = r\nsource_profile = two\n[profile two]\nrole_arn = r\n"
                        "source_profile = one\n[profile none]\nrole_arn = r\n",
                        kSecret, kSecret));
  const Variables home = {{"HOME", dir.path()}, {"AWS_ENDPOINT_URL_STS", server.url() + "/sts"}};
  const FoundKeys keys = found(home, "role");
  CHECK(keys.keys.id == "ROLE");
  CHECK(keys.keys.secret.bytes() == kSecret);
  CHECK(keys.keys.session_token.bytes() == "token-ROLE");
  CHECK(keys.expires.has_value());
  CHECK(found(home, "self").keys.id == "ROLE");
  CHECK(has(refusal(home, "refused"), "SignatureDoesNotMatch"));
  CHECK(has(refusal(home, "one"), "leads to itself"));
  CHECK(has(refusal(home, "none"), "needs source_profile"));
}

TEST_CASE("keys come from a web identity, a container and the machine") {
  ObjectServer server;
  server.set(service_keys("SERVICE", 3600));
  const TempDir dir;
  dir.write("token", "web-token\n");
  dir.write("container-token", "container-token\n");
  SUBCASE("web identity") {
    const Variables web = {{"AWS_WEB_IDENTITY_TOKEN_FILE", (dir.path() / "token").string()},
                           {"AWS_ROLE_ARN", "r"},
                           {"AWS_ENDPOINT_URL_STS", server.url() + "/sts/"}};
    CHECK(found(web).source == "web identity");
    CHECK(server.count("sts AssumeRoleWithWebIdentity") == 1);
    server.set(R"({"service_status": 403})");
    CHECK(has(refusal(web), "HTTP 403"));
  }
  SUBCASE("container") {
    Variables container = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/container"},
                           {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token"}};
    CHECK(found(container).keys.session_token.bytes() == "token-SERVICE");
    container.erase("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    CHECK(has(refusal(container), "HTTP 403"));
    container["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = (dir.path() / "container-token").string();
    CHECK(found(container).source == "container");
    for (const char* url : {"http://example.com/", "http://127.0.0.1.example.com/", "http://169.254.170.2.x/", "x"}) {
      container["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
      CHECK_MESSAGE(has(refusal(container), "own addresses"), std::string(url));
    }
  }
  SUBCASE("machine") {
    const Variables machine = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()},
                               {"AWS_EC2_METADATA_DISABLED", "false"}};
    CHECK(found(machine).source == "machine role reader");
    server.set(R"({"service_status": 500})");
    CHECK(has(refusal(machine), "HTTP 500"));
  }
}

TEST_CASE("keys that end while objects are read are renewed, and no read fails") {
  ObjectServer server;
  server.put("a", "content");
  server.put("empty", "");
  give_out(server, "FIRST", 3600);
  ObjectStoreOptions options = server.options();
  options.keys.reset();
  options.environment = environment_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}});
  options.tuning.give_up_after = std::chrono::milliseconds(20'000);
  auto client = ObjectClient::open(options);
  REQUIRE(client.has_value());
  CHECK((*client)->stats().credentials == "machine role reader");
  CHECK(read_one(**client, "a", 7).has_value());
  for (const char* id : {"SECOND", "THIRD"}) {
    // Keys that are refused are renewed once a second at most.
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    give_out(server, id, 3600, id == std::string("SECOND") ? "FIRST" : "SECOND");
    for (int i = 0; i < 20; ++i) {
      const Status status = read_one(**client, "a", 7);
      CHECK_MESSAGE(status.has_value(), status.error().message());
    }
  }
  CHECK(server.count("/latest/api/token") == 3);
  // The answer to a HEAD has no body that would say why.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  give_out(server, "FOURTH", 3600, "THIRD");
  CHECK(read_one(**client, "empty", 0).has_value());
  // Whoever gives the next ones is late: the read waits for them.
  server.set(R"({"expired": ["FOURTH"]})");
  std::thread giver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    give_out(server, "FIFTH", 3600, "FOURTH");
  });
  CHECK(read_one(**client, "a", 7).has_value());
  giver.join();
  // No newer ones: the read fails, and says why.
  server.set(R"({"expired": ["FIFTH"]})");
  const Status status = read_one(**client, "a", 7);
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().code == ErrorCode::kPermission);
  CHECK(has(status.error().message(), "expired"));
}

TEST_CASE("keys are renewed before they end, without a read") {
  ObjectServer server;
  give_out(server, "SHORT", 2);
  auto keeper = KeyKeeper::open(
      {.environment = environment_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}}), .region = "us-east-1"});
  REQUIRE(keeper.has_value());
  CHECK((*keeper)->current()->keys.id == "SHORT");
  give_out(server, "LONG", 3600);
  while ((*keeper)->current()->keys.id != "LONG") std::this_thread::yield();
  CHECK(server.count("/latest/api/token") >= 2);
}

TEST_CASE("who waits for keys is told when there will be none") {
  ObjectServer server;
  give_out(server, "KEY", 3600);
  auto keeper = KeyKeeper::open(
      {.environment = environment_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}}), .region = "us-east-1"});
  REQUIRE(keeper.has_value());
  const auto refused = (*keeper)->current();
  server.set(R"({"service_status": 500})");
  std::promise<void> told;
  (*keeper)->renew(refused, [&] { told.set_value(); });
  told.get_future().get();
  CHECK((*keeper)->current() == refused);
  (*keeper)->join();
  std::atomic<bool> at_once = false;
  (*keeper)->renew(refused, [&] { at_once.store(true); });
  CHECK(at_once.load());
}

TEST_CASE("a keeper that ends waits for no service and no program that hangs") {
  ObjectServer server;
  const TempDir dir;
  give_out(server, "KEY", 3600);
  std::map<std::string, std::string> variables;
  std::function<bool()> has_begun;
  std::function<bool()> has_ended;
  SUBCASE("a service") {
    variables = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}};
    has_begun = [&] { return server.count("/latest/api/token") == 2; };
    has_ended = [&] { return server.count("late keys") > 0; };
  }
  SUBCASE("a program") {
    const std::string program = fmt::format(
        "cd {}; test -e first && touch begun && sleep 9 && touch ended; touch first; "
        R"(echo '{{"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "s"}}')",
        dir.path().string());
    dir.write(".aws/config", "[default]\ncredential_process = " + program + "\n");
    variables = {{"HOME", dir.path()}};
    has_begun = [&] { return std::filesystem::exists(dir.path() / "begun"); };
    has_ended = [&] { return std::filesystem::exists(dir.path() / "ended"); };
  }
  auto keeper = KeyKeeper::open({.environment = environment_of(variables), .region = "us-east-1"});
  REQUIRE(keeper.has_value());
  server.set(R"({"service_seconds": 9})");  // within what a service is waited for
  bool told = false;
  (*keeper)->renew((*keeper)->current(), [&] { told = true; });
  while (!has_begun()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  (*keeper)->join();
  CHECK(told);
  CHECK_FALSE(has_ended());
}

}  // namespace object_keys_test
