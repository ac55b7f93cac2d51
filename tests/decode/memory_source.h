// SPDX-License-Identifier: Apache-2.0
// Samples that lie in memory, in place of a reader over a store.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headrace/decode/sample_source.h"

namespace headrace::test {

using Files = std::vector<std::vector<std::byte>>;

// Sample i is files[i], labelled i % 10; each epoch hands them out in ascending order, each `repeats` times in a row.
class MemorySource final : public decode::SampleSource {
 public:
  explicit MemorySource(const Files& files, std::uint64_t epochs = 1, std::uint64_t first_position = 0,
                        std::uint64_t repeats = 1)
      : files_(files), epochs_(epochs), repeats_(repeats), position_(first_position) {}

  std::optional<decode::RawSample> next() override {
    if (cancelled_ || epoch_ == epochs_) return std::nullopt;
    decode::RawSample raw;
    raw.epoch = epoch_;
    raw.position = position_;
    raw.index = static_cast<decode::SampleIndex>(position_ / repeats_);
    raw.label = raw.index % 10;
    raw.bytes = std::span<const std::byte>(files_[raw.index]);
    ++handed_out_;
    if (++position_ == files_.size() * repeats_) {
      position_ = 0;
      ++epoch_;
    }
    return raw;
  }
  void cancel() override { cancelled_ = true; }
  std::string path(decode::SampleIndex index) const override { return "file-" + std::to_string(index); }

  [[nodiscard]] std::uint64_t handed_out() const { return handed_out_; }

 private:
  const Files& files_;
  const std::uint64_t epochs_;
  const std::uint64_t repeats_;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_;
  std::atomic<std::uint64_t> handed_out_ = 0;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace headrace::test
