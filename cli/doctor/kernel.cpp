// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/kernel.h"

#include <charconv>
#include <string>
#include <utility>

namespace headrace::cli {
namespace {

using Version = std::pair<int, int>;

Version version_of(std::string_view release) {
  Version version;
  const char* const end = release.data() + release.size();
  const auto major = std::from_chars(release.data(), end, version.first);
  if (major.ec != std::errc{} || major.ptr == end || *major.ptr != '.') return {};
  if (std::from_chars(major.ptr + 1, end, version.second).ec != std::errc{}) return {};
  return version;
}

struct Loss {
  Version before;
  const char* what;  // is lost on kernels before that
};
constexpr Loss kLosses[] = {
    {{6, 1}, "each read of io_uring interrupts its thread, and where direct reads work is tried"},
    {{6, 5}, "what the page cache has of the source is read from it again"},
    {{6, 13}, "a file that changes twice within 4 ms is read later, so that nothing of both is kept"},
};
constexpr Version kTested = {5, 15};

}  // namespace

Finding examine_kernel(std::string_view release) {
  const Version version = version_of(release);
  Finding finding{.name = "kernel", .health = Health::kGood, .text = std::string(release)};
  std::string lost;
  for (const Loss& loss : kLosses) {
    if (version < loss.before) lost += (lost.empty() ? ": " : "; ") + std::string(loss.what);
  }
  finding.text += lost;
  if (!lost.empty()) finding.health = Health::kInfo;
  if (version < kTested) finding.text += "; older than 5.15, not tested";
  return finding;
}

}  // namespace headrace::cli
