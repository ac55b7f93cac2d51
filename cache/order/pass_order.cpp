// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/pass_order.h"

#include <algorithm>
#include <utility>

#include "headrace/io/result.h"

namespace headrace::cache {

using io::MutexLock;

namespace {

[[nodiscard]] std::string spec_of(const std::vector<OrderedSet>& sets) {
  std::string spec;
  for (const OrderedSet& set : sets) {
    spec.append(spec.empty() ? "" : " ").append(set.name).append("=").append(set.order->spec());
  }
  return spec;
}

}  // namespace

PassOrder::PassOrder(OrderedSets sets, const PassOptions& options)
    : sets_(std::move(sets)),
      options_(options),
      spec_(spec_of(*sets_)),
      set_of_(options.sample_count, std::uint8_t{kMaxSets}),
      kept_(sets_->size(), true) {
  HEADRACE_ASSERT(!sets_->empty() && sets_->size() <= kMaxSets);
  for (std::size_t set = 0; set < sets_->size(); ++set) {
    for (const SampleIndex sample : (*sets_)[set].samples) set_of_[sample] = static_cast<std::uint8_t>(set);
    next_epoch_.push_back(first_epoch(set));
    follower_.push_back(options.in_turn ? (set + 1) % sets_->size() : set);
  }
}

std::shared_ptr<PassOrder> PassOrder::anew(std::uint64_t first_epoch) const {
  PassOptions options = options_;
  options.first_epoch = first_epoch;
  return std::make_shared<PassOrder>(sets_, options);
}

std::shared_ptr<PassOrder> PassOrder::anew_within(std::size_t set, std::uint64_t epoch) const {
  PassOptions options = options_;
  options.next_epochs.clear();
  const std::uint64_t epochs_read = epoch - std::min(epoch, first_epoch(set));
  for (std::size_t other = 0; other < sets_->size(); ++other) {
    options.next_epochs.push_back(other == set ? epoch : first_epoch(other) + epochs_read + (other < set ? 1 : 0));
  }
  auto order = std::make_shared<PassOrder>(sets_, options);
  static_cast<void>(order->turn_to(set, epoch));
  return order;
}

std::size_t PassOrder::largest() const {
  const auto largest = std::ranges::max_element(*sets_, {}, [](const OrderedSet& set) { return set.samples.size(); });
  return static_cast<std::size_t>(largest - sets_->begin());
}

std::size_t PassOrder::next_kept(std::size_t set) const {
  for (std::size_t tried = 0; tried < sets_->size() && !kept_[set]; ++tried) set = (set + 1) % sets_->size();
  return set;
}

// One set alone has its own epochs, so that none has to be remembered.
PassOrder::Pass PassOrder::pass_locked(std::uint64_t number) const {
  if (sets_->size() == 1) return {.set = 0, .epoch = first_epoch(0) + number};
  while (passes_.size() <= number) {
    const std::size_t set =
        next_kept(passes_.empty() ? (options_.in_turn ? 0 : largest()) : follower_[passes_.back().set]);
    passes_.push_back({.set = set, .epoch = next_epoch_[set]++});
  }
  return passes_[number];
}

PassOrder::Pass PassOrder::pass(std::uint64_t number) const {
  MutexLock lock(mutex_);
  return pass_locked(number);
}

std::optional<std::size_t> PassOrder::set_of(SampleIndex sample) const {
  const std::size_t set = set_of_[sample];
  if (set == kMaxSets) return std::nullopt;
  MutexLock lock(mutex_);
  return kept_[set] ? std::optional(set) : std::nullopt;
}

std::uint64_t PassOrder::length(std::uint64_t number) const {
  const Pass drawn = pass(number);
  return sets()[drawn.set].order->length(drawn.epoch);
}

std::uint64_t PassOrder::length_max(std::uint64_t /*pass*/) const {
  const std::size_t set = largest();
  return sets()[set].order->length(first_epoch(set));
}

Result<std::vector<SampleIndex>> PassOrder::epoch(std::uint64_t number) const {
  return prefix(number, UINT64_MAX);
}

Result<std::vector<SampleIndex>> PassOrder::prefix(std::uint64_t number, std::uint64_t count) const {
  const Pass drawn = pass(number);
  const OrderedSet& set = sets()[drawn.set];
  Result<std::vector<SampleIndex>> samples =
      count == UINT64_MAX ? set.order->epoch(drawn.epoch) : set.order->prefix(drawn.epoch, count);
  if (!samples) return samples;
  for (SampleIndex& sample : *samples) sample = set.samples[sample];
  return samples;
}

WorkerLayout PassOrder::workers() const {
  return sets()[largest()].order->workers();
}

void PassOrder::on_reached(std::uint64_t from, std::uint64_t to) {
  MutexLock lock(mutex_);
  if (sets_->size() == 1 || to <= from || to >= passes_.size()) return;
  follower_[passes_[from].set] = passes_[to].set;
  for (std::uint64_t skipped = from + 1; skipped < to; ++skipped) {
    std::uint64_t& next = next_epoch_[passes_[skipped].set];
    next = std::min(next, passes_[skipped].epoch);
  }
}

std::uint64_t PassOrder::turn_to(std::size_t set, std::uint64_t epoch) {
  MutexLock lock(mutex_);
  if (sets_->size() == 1) return epoch - std::min(epoch, first_epoch(0));
  passes_.push_back({.set = set, .epoch = epoch});
  next_epoch_[set] = epoch + 1;
  return passes_.size() - 1;
}

void PassOrder::note_successor(std::size_t before, std::size_t set) {
  MutexLock lock(mutex_);
  follower_[before] = set;
}

bool PassOrder::let_go(std::size_t set) {
  MutexLock lock(mutex_);
  kept_[set] = false;
  return std::ranges::find(kept_, true) != kept_.end();
}

namespace {

[[nodiscard]] bool is_below(const Catalog& catalog, EntryId entry, EntryId folder) {
  while (entry != kRootEntry && entry != folder) entry = catalog.parent(entry);
  return entry == folder;
}

// The folder between `folder` and the sample that is next to `folder`: a loader's class. kNoEntry: the sample lies in
// the folder itself.
[[nodiscard]] EntryId class_of(const Catalog& catalog, EntryId entry, EntryId folder) {
  EntryId class_folder = kNoEntry;
  for (entry = catalog.parent(entry); entry != folder; entry = catalog.parent(entry)) class_folder = entry;
  return class_folder;
}

}  // namespace

// ImageFolder and Keras sort by class first, and take nothing that lies in no class. From above, the folder is the
// class, and those below it are sorted by their whole paths: "a-b" before "a/deep".
std::vector<SampleIndex> samples_below(const Catalog& catalog, EntryId folder) {
  struct Classed {
    SampleIndex sample = 0;
    std::string class_name;
  };
  std::vector<Classed> found;
  bool has_classes = false;
  for (std::uint64_t i = 0; i < catalog.sample_count(); ++i) {
    const auto sample = static_cast<SampleIndex>(i);
    const EntryId entry = catalog.sample_entry(sample);
    if (!is_below(catalog, entry, folder)) continue;
    const EntryId class_folder = class_of(catalog, entry, folder);
    has_classes = has_classes || class_folder != kNoEntry;
    found.push_back({sample, class_folder == kNoEntry ? "" : catalog.path(class_folder)});
  }
  const bool by_class = catalog.listing() == ListingRule::kImageFolder || catalog.listing() == ListingRule::kKeras;
  if (by_class && has_classes) {
    std::erase_if(found, [](const Classed& each) { return each.class_name.empty(); });
    std::ranges::stable_sort(found, {}, &Classed::class_name);
  }
  std::vector<SampleIndex> samples;
  samples.reserve(found.size());
  for (const Classed& each : found) samples.push_back(each.sample);
  return samples;
}

}  // namespace headrace::cache
