// SPDX-License-Identifier: Apache-2.0
// headrace order --check: whether a loader reads as an order says.
#include "headrace/cache/order_check.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/order_learner.h"
#include "headrace/cli/commands/order.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/json.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using cache::SampleIndex;
using io::ErrorCode;
using io::make_error;
using nlohmann::json;

// What was opened, in its sequence, as samples of a data set.
class Opens {
 public:
  explicit Opens(const cache::Catalog& catalog) : catalog_(catalog) {}

  // A sample's number or path. A path may begin with any folder: the loader may have opened it through a mount.
  void add(std::string_view name) {
    if (name.ends_with('\r')) name.remove_suffix(1);
    if (name.empty()) return;
    if (const std::optional<SampleIndex> sample = find(name)) return samples_.push_back(*sample);
    if (strangers_++ == 0) first_stranger_ = io::printable(name.substr(0, 80));
  }

  [[nodiscard]] const std::vector<SampleIndex>& samples() const { return samples_; }
  [[nodiscard]] std::uint64_t strangers() const { return strangers_; }
  [[nodiscard]] const std::string& first_stranger() const { return first_stranger_; }

 private:
  [[nodiscard]] std::optional<SampleIndex> find(std::string_view name) const {
    SampleIndex number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size() && number < catalog_.sample_count()) return number;
    while (true) {
      name.remove_prefix(std::min(name.find_first_not_of('/'), name.size()));
      const std::optional<cache::EntryId> entry = catalog_.find(name);
      if (const auto sample = entry ? catalog_.sample_of(*entry) : std::nullopt) return sample;
      const std::size_t slash = name.find('/');
      if (slash == std::string_view::npos) return std::nullopt;
      name.remove_prefix(slash);
    }
  }

  const cache::Catalog& catalog_;
  std::vector<SampleIndex> samples_;
  std::uint64_t strangers_ = 0;  // names of no sample
  std::string first_stranger_;
};

io::Status read_log(std::istream& lines, const std::string& name, Opens& opens) {
  std::string line;
  while (std::getline(lines, line)) opens.add(line);
  if (!lines.eof()) return io::system_error(errno, "read " + name);
  return {};
}

io::Status ask_mount(const std::filesystem::path& mount_point, Opens& opens) {
  std::uint64_t next = 0;
  while (true) {
    HEADRACE_TRY(reply, call_daemon(mount_point, "opens", {{"first", next}}));
    const json& paths = member_of(reply, "paths");
    if (paths.empty()) return {};
    for (const json& path : paths) opens.add(path.is_string() ? path.get<std::string>() : "");
    next = number_of(reply, "next");
  }
}

io::Status find_opens(const std::filesystem::path& place, Opens& opens) {
  if (place == "-") return read_log(std::cin, "standard input", opens);
  if (std::filesystem::is_directory(place)) return ask_mount(place, opens);
  std::ifstream lines(place);
  if (!lines) return io::system_error(errno, "open " + place.string());
  return read_log(lines, place.string(), opens);
}

// What the opens follow among what scripts use, over the whole data set or one of these parts.
std::optional<cache::OrderLearner::Lock> lock_on(std::uint64_t sample_count, std::vector<cache::SampleRange> parts,
                                                 std::span<const SampleIndex> opens) {
  constexpr std::size_t kAtOnce = 16;  // as few opens as show an order
  constexpr double kSeconds = 60;      // of CPU; what scripts use is tried within a few
  cache::OrderLearner learner({.sample_count = sample_count,
                               .parts = std::move(parts),
                               .search_all_seeds = false,
                               .fruitless_seconds = kSeconds});
  while (!opens.empty() && !learner.lock()) {
    const auto some = opens.first(std::min(kAtOnce, opens.size()));
    learner.on_opens(some);
    learner.wait_idle();
    opens = opens.subspan(some.size());
  }
  return learner.lock();
}

bool reads_more_than(const cache::Order& order, std::uint64_t epoch, std::span<const SampleIndex> opens) {
  const io::Result<std::vector<SampleIndex>> samples = order.epoch(epoch);
  if (!samples) return false;
  const std::unordered_set<SampleIndex> known(samples->begin(), samples->end());
  return std::ranges::any_of(opens, [&known](SampleIndex sample) { return !known.contains(sample); });
}

// In words; empty: nothing of what scripts use. Folders that are read one after the other are one data set, although
// the first of them fits the opens sooner.
std::string fitting_order(const cache::Catalog& catalog, std::span<const SampleIndex> opens) {
  const std::uint64_t count = catalog.sample_count();
  auto lock = lock_on(count, cache::top_level_parts(catalog), opens);
  if (!lock) return "";
  if (reads_more_than(*lock->order, lock->epoch, opens)) {
    auto of_all = lock_on(count, {}, opens);
    const bool fits =
        of_all &&
        !cache::check_order(*of_all->order, opens, {.sample_count = count, .first_epoch = of_all->epoch}).difference;
    if (fits) lock = std::move(of_all);
  }
  if (lock->found_by == "replay") return "the sequence of the epoch before, once more: file:PATH, with that list";
  return fmt::format("{}, from epoch {} on", lock->order->spec(), lock->epoch);
}

std::string path_of(const cache::Catalog& catalog, SampleIndex sample) {
  return io::printable(catalog.path(catalog.sample_entry(sample)));
}

void print_stretches(const cache::OrderCheck& check) {
  for (const cache::OrderCheck::Stretch& stretch : check.stretches) {
    fmt::print("epoch {} from position {} on: {} of {} opens are where the order has them\n", stretch.epoch,
               stretch.position, stretch.fitting, stretch.opens);
  }
}

tl::unexpected<io::Error> describe_difference(const DataSet& data, const Opens& opens,
                                              const cache::OrderCheck::Difference& difference) {
  const std::string opened = path_of(data.catalog, difference.opened);
  std::string text =
      fmt::format("open {} was {}, and the order's epochs have no such sequence", difference.open, opened);
  if (difference.expected) {
    text = fmt::format("from open {} on the loader reads otherwise: {}, where the order has {} at position {}",
                       difference.open, opened, path_of(data.catalog, *difference.expected), *difference.position);
  }
  const std::string fitting = fitting_order(data.catalog, std::span(opens.samples()).subspan(difference.open));
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: {}; {}", data.order->spec(), text,
                  fitting.empty() ? "no order that scripts use fits: give its list as file:PATH, or let a "
                                    "mount with --order auto search all seeds"
                                  : "what fits is " + fitting));
}

}  // namespace

io::Status check_order(const OrderArguments& arguments) {
  HEADRACE_TRY(data, open_data_set(arguments.source, arguments.cache, arguments.order));
  Opens opens(data.catalog);
  HEADRACE_TRY_DO(find_opens(arguments.check, opens));
  if (opens.strangers() > 0) {
    fmt::print("{} names are of no sample; the first: {}\n", opens.strangers(), opens.first_stranger());
  }
  const cache::OrderCheck check = cache::check_order(
      *data.order, opens.samples(), {.sample_count = data.catalog.sample_count(), .first_epoch = arguments.epoch});
  print_stretches(check);
  if (check.difference) return describe_difference(data, opens, *check.difference);
  if (!check.stretches.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: opens of {} samples tell nothing; {} are needed at least",
                                arguments.check.string(), opens.samples().size(), cache::kOpensToCheck));
}

}  // namespace headrace::cli
