// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/simulator.h"

#include <algorithm>

#include "headrace/cache/keep/policy_stack.h"

namespace headrace::cache {
namespace {

// When each read's sample is read next, as a place in the trace.
std::vector<std::uint64_t> next_uses(const Trace& trace, std::size_t samples) {
  std::vector<std::uint64_t> next(trace.reads.size());
  std::vector<std::uint64_t> seen(samples, kNeverUsed);
  for (std::size_t i = trace.reads.size(); i-- > 0;) {
    next[i] = seen[trace.reads[i]];
    seen[trace.reads[i]] = i;
  }
  return next;
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

class Simulation {
 public:
  Simulation(const Trace& trace, std::span<const std::uint32_t> sizes, const SimulationOptions& options)
      : trace_(trace), sizes_(sizes), next_use_(next_uses(trace, sizes.size())) {
    for (const SimulatedTier& tier : options.tiers) {
      policies_.add(make_policy(tier.policy, {.capacity_bytes = tier.capacity_bytes, .sizes = sizes}));
      capacity_bytes_ += tier.capacity_bytes;
    }
    result_.tiers.resize(policies_.size());
  }

  SimulationResult run(std::uint64_t warmup_epochs) {
    const std::uint64_t epochs = trace_.epoch_ends.size();
    const std::uint64_t warmup = warmup_epochs < epochs ? warmup_epochs : 0;
    std::uint64_t first = 0;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const std::uint64_t end = trace_.epoch_ends[epoch];
      if (epoch == warmup) start_counting();
      for (std::uint64_t i = first; i < end; ++i) read(i);
      if (epoch >= warmup) {
        result_.minimum_source_reads +=
            minimum_source_reads(std::span(trace_.reads).subspan(first, end - first), sizes_, capacity_bytes_);
      }
      first = end;
    }
    result_.epochs = epochs - warmup;
    for (std::size_t tier = 0; tier < policies_.size(); ++tier) {
      result_.tiers[tier].writes = policies_[tier].writes() - writes_before_[tier].writes;
      result_.tiers[tier].write_bytes = policies_[tier].write_bytes() - writes_before_[tier].write_bytes;
    }
    return std::move(result_);
  }

 private:
  void start_counting() {
    result_ = {};
    result_.tiers.resize(policies_.size());
    writes_before_.clear();
    for (std::size_t tier = 0; tier < policies_.size(); ++tier) {
      writes_before_.push_back({.writes = policies_[tier].writes(), .write_bytes = policies_[tier].write_bytes()});
    }
  }

  void read(std::uint64_t i) {
    const SampleIndex sample = trace_.reads[i];
    ++result_.reads;
    result_.read_bytes += sizes_[sample];
    const std::size_t tier = policies_.read({.sample = sample, .next_use = next_use_[i], .now = i});
    if (tier != PolicyStack::kNowhere) {
      ++result_.tiers[tier].hits;
      result_.tiers[tier].hit_bytes += sizes_[sample];
      return;
    }
    ++result_.source_reads;
    result_.source_bytes += sizes_[sample];
  }

  const Trace& trace_;
  const std::span<const std::uint32_t> sizes_;
  const std::vector<std::uint64_t> next_use_;
  PolicyStack policies_;
  std::vector<SimulatedTierResult> writes_before_;  // of the policies, when counting started
  std::uint64_t capacity_bytes_ = 0;                // of all tiers
  SimulationResult result_;
};

double seconds_for(std::uint64_t reads, std::uint64_t bytes, const Rate& rate) {
  const double by_bytes = rate.bytes_per_second > 0 ? static_cast<double>(bytes) / rate.bytes_per_second : 0;
  const double by_reads = rate.reads_per_second > 0 ? static_cast<double>(reads) / rate.reads_per_second : 0;
  return std::max(by_bytes, by_reads);
}

}  // namespace

double SimulationResult::hit_ratio() const {
  return ratio(reads - source_reads, reads);
}
double SimulationResult::byte_hit_ratio() const {
  return ratio(read_bytes - source_bytes, read_bytes);
}

double SimulationResult::writes_per_read() const {
  std::uint64_t writes = 0;
  for (const SimulatedTierResult& tier : tiers) writes += tier.writes;
  return ratio(writes, reads);
}

std::uint64_t minimum_source_reads(std::span<const SampleIndex> reads, std::span<const std::uint32_t> sizes,
                                   std::uint64_t capacity_bytes) {
  std::vector<SampleIndex> distinct(reads.begin(), reads.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::sort(distinct.begin(), distinct.end(), [&](auto a, auto b) { return sizes[a] < sizes[b]; });
  std::uint64_t held_bytes = 0;
  std::size_t held = 0;
  while (held < distinct.size() && held_bytes + sizes[distinct[held]] <= capacity_bytes) {
    held_bytes += sizes[distinct[held++]];
  }
  return distinct.size() - held;
}

Result<Trace> trace_of(const Order& order, const TraceOptions& options) {
  Trace trace;
  for (std::uint64_t i = 0; i < options.epochs; ++i) {
    const Result<std::vector<SampleIndex>> epoch = order.epoch(options.first_epoch + i);
    if (!epoch) return tl::unexpected(epoch.error());
    trace.reads.insert(trace.reads.end(), epoch->begin(), epoch->end());
    trace.epoch_ends.push_back(trace.reads.size());
  }
  return trace;
}

SimulationResult simulate(const Trace& trace, std::span<const std::uint32_t> sizes, const SimulationOptions& options) {
  return Simulation(trace, sizes, options).run(options.warmup_epochs);
}

double epoch_seconds(const SimulationResult& result, std::span<const Rate> tiers, const Rate& source) {
  double slowest = seconds_for(result.source_reads, result.source_bytes, source);
  for (std::size_t i = 0; i < std::min(tiers.size(), result.tiers.size()); ++i) {
    slowest = std::max(slowest, seconds_for(result.tiers[i].hits, result.tiers[i].hit_bytes, tiers[i]));
  }
  return result.epochs == 0 ? 0 : slowest / static_cast<double>(result.epochs);
}

}  // namespace headrace::cache
