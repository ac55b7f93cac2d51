// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/buffer.h"

#include <cstdint>
#include <utility>

#include <doctest/doctest.h>

namespace buffer_test {

using headrace::io::Buffer;
using headrace::io::kBufferAlignment;

TEST_CASE("a buffer is aligned and its capacity rounded up") {
  auto buffer = Buffer::allocate(4097);
  REQUIRE(buffer);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % kBufferAlignment == 0);
  CHECK(buffer->capacity() == 2 * kBufferAlignment);
  CHECK(buffer->size() == 0);
}

TEST_CASE("a buffer of no bytes allocates nothing") {
  auto buffer = Buffer::allocate(0);
  REQUIRE(buffer);
  CHECK(buffer->data() == nullptr);
}

TEST_CASE("an impossible size is an error, not an exception") {
  CHECK_FALSE(Buffer::allocate(SIZE_MAX - 5));
}

TEST_CASE("moving a buffer leaves an empty one behind") {
  Buffer first = std::move(*Buffer::allocate(10));
  first.set_size(10);
  const Buffer second = std::move(first);
  CHECK(second.size() == 10);
  CHECK(first.data() == nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is what is tested
  CHECK(first.size() == 0);
}

}  // namespace buffer_test
