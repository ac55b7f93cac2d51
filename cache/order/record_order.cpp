// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/record_order.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::cache {
namespace {

// Where several rows are one record.
class RowOrder final : public Order {
 public:
  RowOrder(std::unique_ptr<Order> rows, std::shared_ptr<const RecordSet> set)
      : rows_(std::move(rows)), set_(std::move(set)) {}

  [[nodiscard]] const std::string& spec() const override { return rows_->spec(); }
  // In rows, as the loader counts; a batch is of fewer records at most.
  [[nodiscard]] WorkerLayout workers() const override { return rows_->workers(); }

  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    HEADRACE_TRY(samples, rows_->epoch(epoch));
    for (SampleIndex& sample : samples) sample = set_->record_of_row(sample);
    samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
    io::MutexLock lock(mutex_);
    lengths_[epoch] = samples.size();
    return samples;
  }

  // Known once the epoch has been drawn, which a plan does before it asks.
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override {
    {
      io::MutexLock lock(mutex_);
      if (const auto found = lengths_.find(epoch); found != lengths_.end()) return found->second;
    }
    const Result<std::vector<SampleIndex>> drawn = this->epoch(epoch);
    return drawn ? drawn->size() : 0;
  }

 private:
  const std::unique_ptr<Order> rows_;
  const std::shared_ptr<const RecordSet> set_;
  mutable io::Mutex mutex_;
  mutable std::unordered_map<std::uint64_t, std::uint64_t> lengths_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace

io::Result<std::unique_ptr<Order>> make_record_order(std::string_view spec, const std::shared_ptr<const RecordSet>& set,
                                                     bool regular_files_only) {
  OrderInput input;
  input.sample_count = set->rows();
  input.regular_files_only = regular_files_only;
  input.find_sample = [](std::string_view) -> std::optional<SampleIndex> { return std::nullopt; };
  HEADRACE_TRY(order, make_order(spec, input));
  if (!set->has_shared_rows()) return order;
  return std::make_unique<RowOrder>(std::move(order), set);
}

}  // namespace headrace::cache
