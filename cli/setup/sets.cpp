// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/sets.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "headrace/cache/pass_order.h"

namespace headrace::cli {
namespace {

using cache::Catalog;
using cache::EntryId;
using cache::Order;
using cache::OrderedSet;
using cache::PassOrder;
using cache::SampleIndex;
using io::ErrorCode;
using io::make_error;

// What the folders of data sets are called that hold their splits.
constexpr std::string_view kSplitNames[] = {"train", "training", "val",        "valid",     "validation",
                                            "test",  "testing",  "evaluation", "train2017", "val2017"};

io::Result<EntryId> find_folder(const Catalog& catalog, std::string_view name) {
  const std::optional<EntryId> entry = catalog.find(name);
  if (entry && *entry != cache::kRootEntry && catalog.is_directory(*entry)) return *entry;
  return make_error(ErrorCode::kNotFound,
                    fmt::format("order {}=...: the data set has no folder {}; name one below the mount", name, name));
}

io::Result<OrderedSet> open_set(const std::string& name, EntryId folder, const std::string& spec,
                                const Catalog& catalog, ListFiles lists) {
  OrderedSet set{.name = name, .samples = cache::samples_below(catalog, folder), .order = nullptr};
  if (set.samples.empty()) {
    return make_error(ErrorCode::kNotFound, fmt::format("order {}=...: the folder {} holds no samples", name, name));
  }
  std::unordered_map<SampleIndex, SampleIndex> numbers;  // only lists of paths ask for it
  const auto find_sample = [&](std::string_view path) -> std::optional<SampleIndex> {
    if (numbers.empty()) {
      for (std::size_t i = 0; i < set.samples.size(); ++i) numbers[set.samples[i]] = static_cast<SampleIndex>(i);
    }
    const std::optional<EntryId> entry = catalog.find(fmt::format("{}/{}", name, path));
    const std::optional<SampleIndex> sample = entry ? catalog.sample_of(*entry) : std::nullopt;
    const auto number = sample ? numbers.find(*sample) : numbers.end();
    return number == numbers.end() ? std::nullopt : std::optional(number->second);
  };
  HEADRACE_TRY(order, cache::make_order(spec, {.sample_count = set.samples.size(),
                                               .find_sample = find_sample,
                                               .regular_files_only = lists == ListFiles::kRegular}));
  set.order = std::move(order);
  return set;
}

io::Status check_disjoint(const std::vector<OrderedSet>& sets, std::uint64_t sample_count) {
  std::vector<bool> taken(sample_count, false);
  for (const OrderedSet& set : sets) {
    for (const SampleIndex sample : set.samples) {
      if (!taken[sample]) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--order {}=...: another --order has samples of that folder; give each folder one "
                                    "order",
                                    set.name));
    }
    for (const SampleIndex sample : set.samples) taken[sample] = true;
  }
  return {};
}

io::Result<std::shared_ptr<const Order>> open_named(const std::vector<NamedSpec>& named, const Catalog& catalog,
                                                    ListFiles lists) {
  if (named.size() > PassOrder::kMaxSets) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("--order: {} folders at most", PassOrder::kMaxSets));
  }
  auto sets = std::make_shared<std::vector<OrderedSet>>();
  for (const NamedSpec& each : named) {
    if (each.folder.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--order {}: where there is more than one, each names its folder: train={}",
                                    each.spec, each.spec));
    }
    HEADRACE_TRY(folder, find_folder(catalog, each.folder));
    HEADRACE_TRY(set, open_set(each.folder, folder, each.spec, catalog, lists));
    sets->push_back(std::move(set));
  }
  HEADRACE_TRY_DO(check_disjoint(*sets, catalog.sample_count()));
  return std::make_shared<const PassOrder>(std::move(sets), cache::PassOptions{.sample_count = catalog.sample_count()});
}

bool holds_folders(const Catalog& catalog, EntryId folder) {
  for (std::uint64_t i = 0; i < catalog.sample_count(); ++i) {
    const EntryId parent = catalog.parent(catalog.sample_entry(static_cast<SampleIndex>(i)));
    if (parent != folder && parent != cache::kRootEntry && catalog.parent(parent) == folder) return true;
  }
  return false;
}

// The folders at the top, where they can be data sets of their own: a few, and at least one of them has classes.
std::vector<EntryId> folders_at_top(const Catalog& catalog) {
  std::vector<EntryId> folders;
  for (std::uint64_t i = 0; i < catalog.sample_count(); ++i) {
    EntryId entry = catalog.sample_entry(static_cast<SampleIndex>(i));
    if (catalog.parent(entry) == cache::kRootEntry) return {};  // a sample at the top: it is one set
    while (catalog.parent(entry) != cache::kRootEntry) entry = catalog.parent(entry);
    if (!folders.empty() && folders.back() == entry) continue;
    if (std::ranges::find(folders, entry) == folders.end()) folders.push_back(entry);
    if (folders.size() > PassOrder::kMaxSets) return {};
  }
  const bool has_classes = std::ranges::any_of(folders, [&](EntryId folder) { return holds_folders(catalog, folder); });
  return folders.size() > 1 && has_classes ? folders : std::vector<EntryId>{};
}

// The same spec for each folder. Null: one of them cannot have that order, or there are no such folders.
std::shared_ptr<const Order> open_by_folder(const std::string& spec, const Catalog& catalog, ListFiles lists,
                                            bool& has_split_names) {
  auto sets = std::make_shared<std::vector<OrderedSet>>();
  for (const EntryId folder : folders_at_top(catalog)) {
    const std::string name = catalog.path(folder);
    has_split_names = has_split_names || std::ranges::find(kSplitNames, name) != std::end(kSplitNames);
    io::Result<OrderedSet> set = open_set(name, folder, spec, catalog, lists);
    if (!set) return nullptr;
    sets->push_back(std::move(*set));
  }
  if (sets->empty()) return nullptr;
  return std::make_shared<const PassOrder>(
      std::move(sets), cache::PassOptions{.sample_count = catalog.sample_count(), .in_turn = false});
}

}  // namespace

// A spec has '=' only behind the ':' that ends its family.
NamedSpec parse_named_spec(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.find(':') < equals) return {.folder = "", .spec = text};
  std::string folder = text.substr(0, equals);
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return {.folder = std::move(folder), .spec = text.substr(equals + 1)};
}

io::Result<std::unique_ptr<Order>> open_folder_order(const NamedSpec& named, const Catalog& catalog, ListFiles lists) {
  auto sets = std::make_shared<std::vector<OrderedSet>>();
  HEADRACE_TRY(folder, find_folder(catalog, named.folder));
  HEADRACE_TRY(set, open_set(named.folder, folder, named.spec, catalog, lists));
  sets->push_back(std::move(set));
  return std::make_unique<PassOrder>(std::move(sets), cache::PassOptions{.sample_count = catalog.sample_count()});
}

std::vector<std::string> words_of_found(const Order& order) {
  const auto* const passes = dynamic_cast<const PassOrder*>(&order);
  if (passes == nullptr) return {order.spec()};
  std::vector<std::string> words;
  for (const OrderedSet& set : passes->sets()) words.push_back(set.name + "=" + set.order->spec());
  return words;
}

// One without a name is over the whole data set, and not over the folder that is read.
std::shared_ptr<const Order> open_found_order(const std::vector<std::string>& words, const Catalog& catalog) {
  if (words.empty()) return nullptr;
  if (words.size() == 1 && parse_named_spec(words.front()).folder.empty()) {
    auto order = cache::make_order(words.front(), {.sample_count = catalog.sample_count(), .find_sample = nullptr});
    return order ? std::move(*order) : nullptr;
  }
  const auto orders = open_orders(words, catalog, ListFiles::kRegular);
  return orders ? orders->front() : nullptr;
}

io::Result<std::vector<std::shared_ptr<const Order>>> open_orders(const std::vector<std::string>& specs,
                                                                  const Catalog& catalog, ListFiles lists) {
  std::vector<NamedSpec> named;
  named.reserve(specs.size());
  for (const std::string& spec : specs) named.push_back(parse_named_spec(spec));
  std::vector<std::shared_ptr<const Order>> orders;
  if (named.size() != 1 || !named.front().folder.empty()) {
    HEADRACE_TRY(order, open_named(named, catalog, lists));
    orders.push_back(std::move(order));
    return orders;
  }
  HEADRACE_TRY(whole, open_order(named.front().spec, catalog, lists));
  orders.push_back(std::move(whole));
  bool has_split_names = false;
  std::shared_ptr<const Order> by_folder = open_by_folder(named.front().spec, catalog, lists, has_split_names);
  if (by_folder) orders.insert(has_split_names ? orders.begin() : orders.end(), std::move(by_folder));
  return orders;
}

}  // namespace headrace::cli
