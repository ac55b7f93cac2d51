// SPDX-License-Identifier: Apache-2.0
// Finds out in which order a training job reads, from its opens alone ("--order auto").
//
//   OrderLearner learner({.sample_count = n, .parts = parts, .record_folder = state / "orders"});
//   learner.on_opens(opened);                        // as inotify reports them
//   if (learner.generation() != known) {             // something was learned, or a lock was dropped
//     known = learner.generation();
//     if (auto lock = learner.lock()) follow(*lock->order, lock->epoch, lock->position);
//   }
//   while (!learner.lock() && has_room()) fetch(learner.next_unseen());   // safe without knowing the order
//
// A data set read once per epoch in an order drawn by a known algorithm from a 32-bit seed gives itself away within a
// few dozen opens: the samples opened so far lie side by side in the true order and nowhere near each other in any
// other. Candidates are tried in stages: what the lock before predicts, orders of earlier runs, small seeds and the
// usual ones under each family, orders with constant seeds, and at last every one of torch's 2^32 seeds in the
// background.
//
// Each part (train/, val/) is watched on its own, so that a validation pass does not disturb what is known of training.
// Opens that fit nothing (a directory viewer, a second job) are outvoted; a lock that stops fitting is dropped.
//
// Thread-safety: every function from any thread. One thread of its own searches; the search through all seeds takes
// further ones of the lowest priority.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/pass_order.h"

namespace headrace::cache {

class Catalog;

// Consecutive samples that a loader may take for a data set of its own: ImageFolder(root / "train").
struct SampleRange {
  SampleIndex first = 0;
  std::uint64_t count = 0;
  std::string name = {};  // of the folder
  [[nodiscard]] bool contains(SampleIndex sample) const { return sample >= first && sample - first < count; }
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

// The samples of each folder at the top, as OrderLearnerOptions::parts.
[[nodiscard]] std::vector<SampleRange> top_level_parts(const Catalog& catalog);

struct OrderLearnerOptions {
  std::uint64_t sample_count = 0;
  // Ranges to watch besides the whole, typically one per top-level folder. More than kMaxParts are taken for classes.
  std::vector<SampleRange> parts = {};
  std::filesystem::path record_folder = {};  // orders are kept here from run to run; empty: nothing is kept
  bool search_all_seeds = true;              // false: known and small seeds only
  unsigned search_threads = 0;               // of the lowest priority; 0: half of the cores
  // Searches through the usual seeds that find nothing may take so much CPU time at first, then this share of a core:
  // some twenty epochs of a job whose order cannot be known, then one attempt every few seconds.
  double fruitless_seconds = 10;
  double fruitless_share = 0.05;
  // The full search covers [0, this); tests reduce it.
  std::uint64_t search_seeds = std::uint64_t{1} << 32;
  // How far torch's default generator is followed from each of the usual seeds, to find an epoch's seed in its outputs.
  // A ResNet-50 initialised on the CPU draws 49 M of them; tests reduce it.
  std::uint64_t link_outputs = 80'000'000;
};

class OrderLearner {
 public:
  static constexpr std::size_t kMaxParts = 8;  // each costs up to 8 bytes per sample of its range

  explicit OrderLearner(OrderLearnerOptions options);
  ~OrderLearner();  // ends a search under way within milliseconds

  // Samples opened, in the order of the opens; repeated ones included.
  void on_opens(std::span<const SampleIndex> samples);
  // A list that the job has read, a csv for instance, whose order may be what it shuffles. `within` gives the samples
  // of a range that it names, in its sequence, each once; empty: none. It is called on the learner's thread, once for
  // the whole and once for each part. The last few lists are kept.
  using SamplesWithin = std::function<std::vector<SampleIndex>(const SampleRange& range)>;
  void offer_list(SamplesWithin within);
  // Events were lost (inotify's queue overflowed): what was seen so far of this epoch no longer begins at its start.
  void on_events_lost();

  struct Lock {
    std::shared_ptr<const Order> order;
    std::uint64_t epoch = 0;         // of `order`, where the reader is
    std::uint64_t position = 0;      // lowest position that was opened; opens_of_epoch() tells what was since
    std::uint64_t known_epochs = 1;  // from `epoch` on; later ones are a guess that failed or are not known yet
    double confidence_bits = 0;      // log2 of how much better than chance the opens fit
    std::string found_by;            // "prediction", "record", "small seed", "seed search", "list", ...
    // Over this part and the others whose orders are known, this one first; null: there is none. Whoever follows it
    // sees by itself which is read, and is told of nothing for as long as the version stays.
    std::shared_ptr<const PassOrder> in_turn = nullptr;
    std::uint64_t in_turn_version = 0;
  };
  // Grows whenever lock() changes. Cheap: meant to be polled per open.
  [[nodiscard]] std::uint64_t generation() const;
  // The order of the part being read now, if known.
  [[nodiscard]] std::optional<Lock> lock() const;
  // Whoever follows the lock knows better: it is dropped, and the same order is not found again for some epochs.
  void give_lock_up();
  // Every lock is dropped, and any order may be found again.
  void learn_anew();
  // What the epoch under way has read of the part, each sample once: under a lock in its order, else as opened.
  [[nodiscard]] std::vector<SampleIndex> opens_of_epoch() const;

  // For as long as no order is known: a sample of the part being read that was not opened in this epoch, each one once
  // per epoch: in listing order or, after an epoch, what that one read, its last one first, and then what else may be
  // read. nullopt: all were handed out, or nothing was opened yet.
  [[nodiscard]] std::optional<SampleIndex> next_unseen();
  // Once after each epoch whose order was not known, when the next one is seen to read the same: samples of the part
  // that they do not read.
  [[nodiscard]] std::vector<SampleIndex> take_left_out();

  struct State {
    std::uint64_t opens = 0;
    std::uint64_t epochs_seen = 0;    // of the part being read
    std::uint64_t locks = 0;          // since the start
    std::uint64_t locks_dropped = 0;  // because opens stopped fitting
    std::uint64_t opens_to_lock = 0;  // opens of the epoch that the present lock needed
    bool searching_all_seeds = false;
    std::uint64_t seeds_tested = 0;         // by all full searches
    std::uint64_t search_seeds_tested = 0;  // by the full search under way, ...
    std::uint64_t search_seeds = 0;         // of so many that it tests at most; 0: none is under way
    double seeds_per_second = 0;            // of the last or present full search, all its threads together
    double search_cpu_seconds = 0;          // of everything that was tried, full searches included
    std::uint64_t searches_curtailed = 0;   // that left out the usual seeds, whose share of the CPU was used up
  };
  [[nodiscard]] State state() const;

  // Blocks until everything that the opens so far call for has been tried. For tests and benchmarks.
  void wait_idle();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::cache
