// SPDX-License-Identifier: Apache-2.0
// Who reads what, when: the sequence of samples of every epoch, from a spec string.
//
//   auto order = make_order("torch-distributed:seed=0,replicas=2", {.sample_count = n});
//   auto samples = (*order)->epoch(3);   // kept: a loop over the temporary would read freed memory
//   for (SampleIndex i : *samples) ...
//
// Thread-safety: immutable; epoch() and prefix() may run on several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cache {

using io::Result;
using SampleIndex = std::uint32_t;

// How a loader's worker processes spread an epoch over time (torch DataLoader): what was opened lies within
// batch * workers * prefetch_factor positions of the reader. workers == 0: strictly in order.
struct WorkerLayout {
  std::uint32_t batch = 1;  // positions that one step takes, of all ranks that read here
  std::uint32_t workers = 0;
  std::uint32_t prefetch_factor = 2;
  // Position i is read by rank i % ranks of those here. Each has workers of its own, and ranks may drift apart.
  std::uint32_t ranks = 1;
};

class Order {
 public:
  virtual ~Order() = default;
  [[nodiscard]] virtual const std::string& spec() const = 0;
  // Positions per epoch; may differ from the number of samples (padding, drop_last, subsets).
  [[nodiscard]] virtual std::uint64_t length(std::uint64_t epoch) const = 0;
  // Of the longest epoch from this one on, where they are of several sets.
  [[nodiscard]] virtual std::uint64_t length_max(std::uint64_t epoch) const { return length(epoch); }
  // The whole epoch, 4 bytes per position. Errors: kInvalidArgument (an epoch that the order does not have), kNotFound
  // (one that is not told yet).
  [[nodiscard]] virtual Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const = 0;
  // Its first min(count, length) positions; O(count) where the algorithm has the prefix property.
  [[nodiscard]] virtual Result<std::vector<SampleIndex>> prefix(std::uint64_t epoch, std::uint64_t count) const;
  [[nodiscard]] virtual WorkerLayout workers() const { return {}; }
};

struct OrderInput {
  std::uint64_t sample_count = 0;  // n of the data set, at most 2^32
  // Finds a sample by its path relative to the source; needed by file:PATH with paths.
  std::function<std::optional<SampleIndex>(std::string_view path)> find_sample = nullptr;
  // Refuses file:PATH where PATH is a pipe or a device: waiting for what never comes would block a daemon.
  bool regular_files_only = false;
};

// Errors: kInvalidArgument, naming the family or parameter and what is allowed; kNotFound for an order file or for a
// path in it.
[[nodiscard]] Result<std::unique_ptr<Order>> make_order(std::string_view spec, const OrderInput& input);

}  // namespace headrace::cache
