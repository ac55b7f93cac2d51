// SPDX-License-Identifier: Apache-2.0
// A SampleSource that says at which position a sample draws its random numbers, or draws them itself as torch does.
//
// Thread-safety: as SampleSource.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "headrace/capi/internal/torch_draws.h"
#include "headrace/decode/sample_source.h"

namespace headrace::capi {

// Sample i of what a rank reads of an epoch is the epoch's sample offset + i * stride.
struct Positions {
  std::uint64_t offset = 0;
  std::uint64_t stride = 1;

  [[nodiscard]] std::uint64_t of(std::uint64_t i) const { return offset + i * stride; }
  // How many samples come before the position that follows `position - 1`.
  [[nodiscard]] std::uint64_t done_before(std::uint64_t position) const {
    return position <= offset ? 0 : (position - 1 - offset) / stride + 1;
  }
};

class PositionSource final : public decode::SampleSource {
 public:
  PositionSource(std::unique_ptr<decode::SampleSource> inner, Positions positions, std::optional<TorchDraws> draws)
      : inner_(std::move(inner)), positions_(positions), draws_(std::move(draws)) {}

  std::optional<decode::RawSample> next() override;
  void cancel() override { inner_->cancel(); }
  std::string path(decode::SampleIndex index) const override { return inner_->path(index); }

 private:
  const std::unique_ptr<decode::SampleSource> inner_;
  const Positions positions_;
  std::optional<TorchDraws> draws_;
};

}  // namespace headrace::capi
