// SPDX-License-Identifier: Apache-2.0
#include "headrace/capi/internal/position_source.h"

namespace headrace::capi {

std::optional<decode::RawSample> PositionSource::next() {
  std::optional<decode::RawSample> raw = inner_->next();
  if (!raw) return raw;
  if (draws_ && raw->bytes) raw->plan = draws_->plan(raw->position, *raw->bytes);
  raw->position = positions_.of(raw->position);
  return raw;
}

}  // namespace headrace::capi
