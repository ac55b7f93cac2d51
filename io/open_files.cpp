// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/open_files.h"

#include <algorithm>

#include <sys/resource.h>

#include "headrace/io/log.h"

namespace headrace::io {
namespace {

constexpr std::uint64_t kUsualLimit = 1024;
constexpr std::uint64_t kOthers = 4096;  // other tiers and buckets of the process, and what a training has open

}  // namespace

std::uint64_t allow_open_files(std::uint64_t count) {
  const rlim_t wanted = count + kOthers;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUsualLimit;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  if (limit.rlim_cur > before && ::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  if (limit.rlim_cur < count + kUsualLimit) {
    log_warning("the limit on open files is {}, and {} files and connections may be wanted; raise it (ulimit -Hn)",
                limit.rlim_cur, count);
  }
  return limit.rlim_cur;
}

}  // namespace headrace::io
