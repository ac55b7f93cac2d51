// SPDX-License-Identifier: Apache-2.0
// What hr_loader stands for: a reader along an order, and behind it either decoded batches or batches of bytes.
//
// Thread-safety: next() from one thread at a time; stop() and report() from any thread. Destruction stops and joins.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "headrace/cache/order.h"
#include "headrace/cache/reader.h"
#include "headrace/capi/headrace.h"
#include "headrace/capi/internal/batch.h"
#include "headrace/capi/internal/dataset.h"
#include "headrace/capi/internal/position_source.h"
#include "headrace/decode/batch_loader.h"
#include "headrace/decode/stage_report.h"

namespace headrace::capi {

using Deadline = std::chrono::steady_clock::time_point;

class Batches {
 public:
  virtual ~Batches() = default;
  // nullptr: the end, or stopped. Errors: kTimedOut; a bad sample's (HR_BAD_RAISE), again at each later call.
  [[nodiscard]] virtual io::Result<std::unique_ptr<BatchHandle>> next(Deadline deadline) = 0;
  virtual void stop() = 0;
  [[nodiscard]] virtual decode::StageReport report() const = 0;
  // Batches that were copied because the consumer kept too many.
  [[nodiscard]] virtual std::uint64_t copied() const { return 0; }
};

// What both kinds of batches are made of. The parts outlive the batches.
struct Parts {
  std::shared_ptr<Dataset> dataset;
  std::unique_ptr<cache::Order> order;
  std::unique_ptr<cache::Reader> reader;
};

// Errors: those of BatchLoader::start().
[[nodiscard]] io::Result<std::unique_ptr<Batches>> image_batches(Parts& parts, const hr_loader_options& options);
[[nodiscard]] io::Result<std::unique_ptr<Batches>> byte_batches(Parts& parts, const hr_loader_options& options);

// What the options say to the layers below. Errors: kInvalidArgument, naming the field.
[[nodiscard]] io::Status check(const hr_loader_options& options);
[[nodiscard]] decode::BatchOptions batch_options(const hr_loader_options& options);
[[nodiscard]] Positions positions_of(const hr_loader_options& options);

// JSON.
[[nodiscard]] std::string report_text(const Batches& batches, const Dataset& dataset);

}  // namespace headrace::capi
