// SPDX-License-Identifier: Apache-2.0
// The page of headrace report: what it says, and that a browser shows it with nothing from elsewhere.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "headrace/cli/show/report_page.h"

#include "mount_fixture.h"
#include "process.h"

namespace report_test {

using headrace::cli::draw_plot;
using headrace::cli::draw_report;
using headrace::cli::escape_html;
using headrace::cli::sample_from;
using headrace::cli::WatchHistory;
using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::TempDir;
using nlohmann::json;

namespace {

// A stat after so many seconds, of a mount whose source has a hostile name.
json stat_after(double seconds, std::uint64_t opens) {
  return {{"uptime_seconds", seconds},
          {"version", "1"},
          {"source", "/data/<script>alert('x')</script>"},
          {"mount_point", "/mnt/\"a\"&b"},
          {"data_set", {{"samples", 100}, {"bytes", 1000 << 10}}},
          {"mount",
           {{"opens", opens},
            {"hits", opens / 2},
            {"read_wait_seconds", 0.01 * static_cast<double>(opens)},
            {"read_waits", json::array({{{"count", opens}, {"seconds_max", 0.01}}, {{"count", 1}}})},
            {"read_failure_reasons", {{"EIO", 3}}},
            {"order", "sequential"},
            {"fallbacks", json::array({"no overlay: <b>"})}}},
          {"store", {{"tiers", json::array({{{"kind", "source"}, {"hits", opens}, {"hit_bytes", opens << 10}}})}}}};
}

std::string page_of(std::uint64_t opens) {
  WatchHistory history;
  const json first = stat_after(10, 0);
  const json last = stat_after(20, opens);
  history.add(sample_from(first));
  history.add(sample_from(stat_after(15, opens / 4)));
  history.add(sample_from(last));
  return draw_report({.first = first, .last = last}, history);
}

void check_needs_nothing_else(const std::string& page) {
  for (const char* part : {"<script", "src=", "href=", "http:", "https:", "url(", "@import", "nan", "inf\""}) {
    CAPTURE(part);
    CHECK_FALSE(contains(page, part));
  }
}

}  // namespace

TEST_CASE("the report tells what happened between its ends, and names are no markup") {
  const std::string page = page_of(400);
  check_needs_nothing_else(page);
  CHECK(contains(page, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; on /mnt/&quot;a&quot;&amp;b"));
  CHECK(contains(page, "<b>40.0</b>files per second"));
  CHECK(contains(page, "<b>50.0 %</b>found in memory"));
  CHECK(contains(page, "<b>0.40</b>readers waiting"));
  CHECK(contains(page, "<td>fetched from source</td><td>400</td><td>400 KiB</td>"));
  CHECK(contains(page, "<td>up to 10.0 ms</td><td>400</td>"));
  CHECK_FALSE(contains(page, "<td>longer</td>"));  // not in this time
  CHECK(contains(page, "3 reads failed with EIO"));
  CHECK(contains(page, "no overlay: &lt;b&gt;"));
  CHECK(contains(page, "The order is sequential, epoch 0; it was given."));
  CHECK(page.ends_with("</body></html>\n"));
}

TEST_CASE("a report of a mount that nobody read is one, too") {
  const std::string page = page_of(0);
  check_needs_nothing_else(page);
  CHECK(contains(page, "<b>-</b>found in memory"));
  check_needs_nothing_else(draw_plot({.title = "t", .unit = "u", .values = {}, .seconds = 0}));
  check_needs_nothing_else(draw_plot({.title = "t", .unit = "u", .values = {1}, .seconds = 0}));
}

TEST_CASE("a plot goes from the left to the right, and its largest value to the top") {
  const std::string plot = draw_plot({.title = "Files", .unit = "per second", .values = {0, 50, 100}, .seconds = 60});
  CHECK(contains(plot, "d=\"M0.0 130.0 L360.0 74.0 L720.0 18.0\""));
  CHECK(contains(plot, ">100 per second<"));
  CHECK(contains(plot, ">1:00<"));
  CHECK(escape_html("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
}

// The page of a mount that is read meanwhile.
std::string page_of_mount(const Fixture& fixture) {
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const auto child = fixture.tool.start({"report", point, "--seconds", "1"});
  fixture.check_equal_trees(fixture.mount_point);
  const Outcome outcome = child->wait();
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  return outcome.output;
}

TEST_CASE("headrace report writes a page of a mount") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string page = page_of_mount(fixture);
  check_needs_nothing_else(page);
  CHECK(contains(page, "<h1>" + fixture.source.string() + " on " + point + "</h1>"));
  CHECK(fixture.tool({"report", point, "--seconds", "0"}).status == 2);
  CHECK(contains(fixture.tool.start_on_terminal({"report", point})->wait().output, "write it to a file"));
}

// Chromium, with a profile of its own in `folder`.
bool browse(const std::filesystem::path& folder, const std::string& options) {
  const std::string command =
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-background-networking --window-size=800,1600"
      " --user-data-dir=" +
      (folder / "profile").string() + " " + options + " 2>/dev/null";
  return std::system(command.c_str()) == 0;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("a browser shows the page of headrace report, with its plots") {
  // First, because skipping ends the process with whatever is mounted.
  if (std::system("command -v chromium >/dev/null") != 0) skip("needs chromium to show the page");
  const Fixture fixture;
  const TempDir folder;
  const std::string text = page_of_mount(fixture);
  const std::string page = "file://" + folder.write("run.html", text).string();
  const std::filesystem::path picture = folder.path() / "run.png";
  REQUIRE(browse(folder.path(), "--screenshot=" + picture.string() + " " + page));
  CHECK(read_file(picture).size() > 10'000);  // an empty page of this size takes 6 KB
  const std::filesystem::path shown = folder.path() / "shown.html";
  REQUIRE(browse(folder.path(), "--dump-dom " + page + " >" + shown.string()));
  const std::string dom = read_file(shown);
  CHECK(count_of(text, "<svg") > 0);
  for (const char* part : {"<svg", "<path d=\"M", "</table>"}) {
    CAPTURE(part);
    CHECK(count_of(dom, part) == count_of(text, part));
  }
}

}  // namespace report_test
