// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/opens_now.h"

namespace headrace::io::internal {

namespace {

// With more in flight the device is busy anyway, and the workers open several files side by side.
constexpr unsigned kStartedMax = 2;
// An open without I/O takes 10 us, one that reads an inode from an SSD 100 to 200 us, from a hard disk 10 ms. With this
// pause at most one open in 256 waits that long.
constexpr std::chrono::microseconds kWaited{500};
constexpr unsigned kPauseAfterWait = 256;

}  // namespace

bool OpensNow::allowed(unsigned started) {
  if (started > kStartedMax) return false;
  if (pause_ == 0) return true;
  --pause_;
  return false;
}

void OpensNow::on_opened(std::chrono::nanoseconds taken) {
  if (taken > kWaited) pause_ = kPauseAfterWait;
}

}  // namespace headrace::io::internal
