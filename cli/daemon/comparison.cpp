// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/comparison.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskInterval{50};

// A process that makes way for another one just now breaks off. The next one is asked the same; on a busy machine it
// does not listen for a while, which is waited for here once more than others do.
io::Result<json> ask(const std::filesystem::path& mount_point, const char* command, steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  constexpr int kTries = 3;                    // 30 s at most
  constexpr milliseconds kAnswerMost{10'000};  // of a daemon that is busy
  const auto call = [&] {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    return call_daemon(mount_point, command, json::object(), std::clamp(left, kAskInterval, kAnswerMost));
  };
  io::Result<json> state = call();
  const auto is_worth_it = [&] {
    return state.error().code == io::ErrorCode::kNotFound ||
           (state.error().code == io::ErrorCode::kTimedOut && steady_clock::now() < deadline &&
            has_socket(mount_point));
  };
  for (int i = 1; i < kTries && !state && is_worth_it(); ++i) state = call();
  return state;
}

// Where names are others, the process that compared has gone, and the one that shows them says how many they were.
Comparison found_by(const json& state, std::uint64_t renewals_before) {
  const bool is_renewed = number_of(state, "renewals") > renewals_before;
  const json& from = is_renewed ? member_of(state, "renewed") : state;
  return {.changed = number_of(from, "changed"),
          .vanished = number_of(from, "vanished"),
          .appeared = number_of(from, "appeared"),
          .is_shown = is_renewed,
          .why_not_shown = text_of(state, "why_not_shown")};
}

}  // namespace

io::Result<Comparison> compare_source(const std::filesystem::path& mount_point,
                                      std::optional<std::chrono::milliseconds> patience) {
  const auto deadline = patience ? steady_clock::now() + *patience : steady_clock::time_point::max();
  io::Result<json> state = ask(mount_point, "refresh", deadline);
  if (!state) return io::forward_error(std::move(state));
  const std::uint64_t renewals_before = number_of(*state, "renewals");
  while (state && flag_of(*state, "running")) {
    if (steady_clock::now() >= deadline) return Comparison{.has_ended = false};
    std::this_thread::sleep_for(kAskInterval);
    state = ask(mount_point, "refresh-state", deadline);
  }
  if (!state && patience && state.error().code == io::ErrorCode::kTimedOut) return Comparison{.has_ended = false};
  if (!state) return io::forward_error(std::move(state));
  if (const std::string failure = text_of(*state, "failure"); !failure.empty()) {
    return io::make_error(io::ErrorCode::kSystem, "the source could not be compared: " + failure);
  }
  return found_by(*state, renewals_before);
}

}  // namespace headrace::cli
