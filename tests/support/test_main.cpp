// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>
#include <ctime>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace {

// tests/run --minutes: a run that must end in time leaves out what it comes to too late, and says so.
void skip_if_too_late() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const char* begin_until = std::getenv("HEADRACE_TEST_BEGIN_UNTIL");  // seconds since 1970
  if (begin_until == nullptr || std::time(nullptr) < std::atoll(begin_until)) return;
  headrace::test::skip("the time that this run was given is over");
#endif
}

}  // namespace

int main(int argument_count, char** arguments) {
  skip_if_too_late();
  return doctest::Context(argument_count, arguments).run();
}
