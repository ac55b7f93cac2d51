// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <pthread.h>

// The search for an order has idle priority, and on a busy machine a test would wait minutes for its seconds.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's declaration has reserved names.
extern "C" int pthread_setschedparam(pthread_t, int, const sched_param*) noexcept {
  return 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these have a pthread_create() of their own

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <dlfcn.h>

// Ends a test that starts a thread although tests/CMakeLists.txt names its source as SINGLE_THREADED: the thread
// sanitizer would never see it.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's declaration has reserved names.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  static const auto kCreate = reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  static const char* const kThreads = std::getenv("HEADRACE_TEST_THREADS");
  if (kThreads != nullptr && std::string_view(kThreads) == "none") {
    std::fputs("this test starts a thread: its source is not SINGLE_THREADED\n", stderr);
    std::abort();
  }
  return kCreate(thread, attributes, run, argument);
}

#endif
