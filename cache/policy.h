// SPDX-License-Identifier: Apache-2.0
// What a cache keeps: one interface, one source per policy. Bytes are counted, not held: the simulator and the
// placement on disk tiers run the same code.
//
//   auto policy = make_policy(PolicyKind::kLru, {.capacity_bytes = 1 << 30, .sizes = sizes});
//   if (!policy->read({.sample = 7, .next_use = 1234, .now = 1000})) ++source_reads;
//
// Thread-safety: none; one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

enum class PolicyKind : std::uint8_t {
  kLru,         // least recently used goes
  kS3Fifo,      // small, main and ghost queues (Yang et al., SOSP 2023)
  kNeverEvict,  // filled once, never changed (MinIO: Mohan et al., VLDB 2021)
  kMin,         // what takes most bytes for longest until its next use goes, or does not come in (Belady, 1966, with
                // bypass, weighed by size); knows the future, optimal where all sizes are equal
};
inline constexpr PolicyKind kAllPolicies[] = {PolicyKind::kLru, PolicyKind::kS3Fifo, PolicyKind::kNeverEvict,
                                              PolicyKind::kMin};

[[nodiscard]] std::string_view name_of(PolicyKind kind);  // "lru", "s3-fifo", "never-evict" ...
[[nodiscard]] std::optional<PolicyKind> policy_from_name(std::string_view name);

inline constexpr std::uint64_t kNeverUsed = UINT64_MAX;

struct Access {
  SampleIndex sample = 0;
  std::uint64_t next_use = kNeverUsed;  // when the sample is read next, on any clock that runs with the reads
  std::uint64_t now = 0;                // on the same clock
};

struct PolicyOptions {
  std::uint64_t capacity_bytes = 0;
  std::span<const std::uint32_t> sizes;            // of every sample; outlives the policy
  std::function<void(SampleIndex)> on_evict = {};  // may be empty; must not call the policy
};

class Policy {
 public:
  explicit Policy(const PolicyOptions& options)
      : capacity_bytes_(options.capacity_bytes), sizes_(options.sizes), on_evict_(options.on_evict) {}
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Whether the sample was held. If not, the policy may take it in.
  [[nodiscard]] virtual bool read(const Access& access) = 0;
  [[nodiscard]] virtual bool holds(SampleIndex sample) const = 0;

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::uint64_t writes() const { return writes_; }  // samples taken in
  [[nodiscard]] std::uint64_t write_bytes() const { return write_bytes_; }

 protected:
  [[nodiscard]] std::uint64_t size_of(SampleIndex sample) const { return sizes_[sample]; }
  [[nodiscard]] std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  [[nodiscard]] std::size_t sample_count() const { return sizes_.size(); }
  [[nodiscard]] bool fits(SampleIndex sample) const { return used_bytes_ + size_of(sample) <= capacity_bytes_; }
  [[nodiscard]] bool can_ever_fit(SampleIndex sample) const { return size_of(sample) <= capacity_bytes_; }
  void take_in(SampleIndex sample) {
    used_bytes_ += size_of(sample);
    write_bytes_ += size_of(sample);
    ++writes_;
  }
  void let_go(SampleIndex sample) {
    used_bytes_ -= size_of(sample);
    if (on_evict_) on_evict_(sample);
  }

 private:
  const std::uint64_t capacity_bytes_;
  const std::span<const std::uint32_t> sizes_;
  const std::function<void(SampleIndex)> on_evict_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t write_bytes_ = 0;
};

[[nodiscard]] std::unique_ptr<Policy> make_policy(PolicyKind kind, const PolicyOptions& options);

// One each; make_policy() chooses.
[[nodiscard]] std::unique_ptr<Policy> make_lru(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Policy> make_s3_fifo(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Policy> make_never_evict(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Policy> make_min(const PolicyOptions& options);

}  // namespace headrace::cache
