// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/order_words.h"

#include <cstdint>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {

using nlohmann::json;

std::string describe_search(const json& mount) {
  const std::uint64_t seeds = number_of(mount, "order_search_seeds");
  if (seeds == 0) return "";
  const std::uint64_t tested = number_of(mount, "order_search_seeds_tested");
  const double rate = real_of(mount, "order_search_seeds_per_second");
  std::string text = fmt::format("searching all seeds: {} of {} tested", format_count(tested), format_count(seeds));
  if (rate < 1 || tested > seeds) return text;
  return fmt::format("{}, {} a second, at most {} left", text, format_count(static_cast<std::uint64_t>(rate)),
                     format_duration(static_cast<double>(seeds - tested) / rate));
}

std::string describe_wrong_order(const json& mount) {
  constexpr std::uint64_t kFew = 64;    // a new reader finds its place within so many
  constexpr std::uint64_t kShare = 10;  // one in so many: somebody looks at the folder
  const std::uint64_t strays = number_of(mount, "strays");
  const std::uint64_t opens = number_of(mount, "opens");
  const std::string order = text_of(mount, "order");
  if (strays < kFew || strays * kShare < opens || order.empty()) return "";
  const bool is_learned = !text_of(mount, "order_found_by").empty();
  if (is_learned && number_of(mount, "orders_given_up") > 0) return "";
  return fmt::format(
      "{} of {} opens were not expected by the order {}: {}", format_count(strays), format_count(opens), order,
      is_learned
          ? "it was learned and does not fit all that reads the mount; a loader with headrace.attach tells its own"
          : "it is not what the loader reads, or something else reads the mount as well; headrace order set tells "
            "another");
}

std::string describe_pause(const json& mount) {
  const std::uint64_t opens = number_of(mount, "read_ahead_paused_opens");
  if (opens == 0) return "";
  const std::string order = text_of(mount, "order");
  return fmt::format(
      "nothing is read ahead for {} more opens, since that cost the source more than it saved: {}", format_count(opens),
      order.empty() ? "nobody knows what is read next; headrace order set tells it"
                    : fmt::format("not all that {} says is read; headrace order set tells another", order));
}

}  // namespace headrace::cli
