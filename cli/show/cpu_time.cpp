// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/cpu_time.h"

#include <sys/resource.h>

namespace headrace::cli {

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace headrace::cli
