// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#if defined(__SANITIZE_THREAD__)
// Boost's queue reads nodes that another thread may be recycling at that moment, and lets a tagged compare-and-swap
// reject what it read. The sanitizer cannot know that. No code of headrace runs below these functions.
extern "C" const char* __tsan_default_suppressions() {
  return "race:boost::lockfree::\n";
}
#endif
