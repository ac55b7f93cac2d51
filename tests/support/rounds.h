// SPDX-License-Identifier: Apache-2.0
// Says how often a test repeats what it draws at random.
#pragma once

#include <cstdlib>

namespace headrace::test {

// `by_day` rounds, or `at_length` of them where HEADRACE_STRESS is set. A sanitizer has a fifth: each of its rounds
// takes five to twenty times as long, and it looks for faults that show in the first ones.
inline int rounds(int by_day, int at_length) {
  if (std::getenv("HEADRACE_STRESS") != nullptr) return at_length;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (by_day + 4) / 5;
#else
  return by_day;
#endif
}

}  // namespace headrace::test
