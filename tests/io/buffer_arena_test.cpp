// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/buffer_arena.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include "headrace/io/page_bytes.h"

#include "support/resident.h"
#include "support/temp_dir.h"

namespace buffer_arena_test {

using namespace headrace::io;
using headrace::test::resident_bytes;

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::shared_ptr<BufferArena> make_arena(std::size_t bytes) {
  auto arena = BufferArena::create({.bytes = bytes});
  REQUIRE(arena);
  return *arena;
}

bool is_from(const BufferArena& arena, const Buffer& buffer) {
  return buffer.data() >= arena.data() && buffer.data() + buffer.capacity() <= arena.data() + arena.size();
}

}  // namespace

TEST_CASE("buffers of an arena lie apart and return their parts in any order") {
  auto arena = make_arena(8 * kMiB);
  std::mt19937_64 random(1);
  std::vector<Buffer> buffers;
  for (int step = 0; step < 2000; ++step) {
    if (buffers.size() < 60 && random() % 2 == 0) {
      Buffer buffer = std::move(*arena->allocate(1 + random() % 300'000));
      std::memset(buffer.data(), step, buffer.capacity());
      buffer.set_size(buffer.capacity());
      buffers.push_back(std::move(buffer));
    } else if (!buffers.empty()) {
      std::swap(buffers[random() % buffers.size()], buffers.back());
      const auto bytes = buffers.back().bytes();
      CHECK(std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);  // nobody wrote into it
      buffers.pop_back();
    }
  }
  buffers.clear();
  CHECK(arena->free_bytes() == arena->size());
  CHECK(is_from(*arena, *arena->allocate(8 * kMiB)));  // one piece again
}

TEST_CASE("a full arena hands out buffers from the heap") {
  auto arena = make_arena(2 * kMiB);
  const Buffer all = std::move(*arena->allocate(2 * kMiB));
  const Buffer more = std::move(*arena->allocate(5000));
  CHECK(is_from(*arena, all));
  CHECK_FALSE(is_from(*arena, more));
  CHECK(more.capacity() == 8192);
}

TEST_CASE("what an arena is to provide it has at once, before any buffer, and no more") {
  auto arena = make_arena(64 * kMiB);
  Buffer first = std::move(*arena->allocate(4096));
  std::fill_n(first.data(), first.capacity(), std::byte{1});
  CHECK(resident_bytes(arena->data(), 64 * kMiB) <= 2 * kMiB);
  std::byte* const probe = arena->data() + 2 * kMiB;
  const bool is_known = ::madvise(probe, page_bytes(), MADV_POPULATE_WRITE) == 0;
  if (!is_known || resident_bytes(probe, page_bytes()) == 0)  // qemu's user mode takes it, and does nothing
    headrace::test::skip("needs MADV_POPULATE_WRITE");
  arena->provide(9 * kMiB);
  CHECK(resident_bytes(arena->data(), 64 * kMiB) == 10 * kMiB);  // in huge pages
  CHECK(first.data()[0] == std::byte{1});
  arena->provide(100 * kMiB);  // more than there is
  CHECK(resident_bytes(arena->data(), 64 * kMiB) == 64 * kMiB);
}

TEST_CASE("an arena gives memory back once much of it is free") {
  auto arena = make_arena(200 * kMiB);
  Buffer buffer = std::move(*arena->allocate(100 * kMiB));
  std::fill_n(buffer.data(), buffer.capacity(), std::byte{1});
  CHECK(resident_bytes(arena->data(), 100 * kMiB) == 100 * kMiB);
  buffer.reset();
  CHECK(resident_bytes(arena->data(), 100 * kMiB) == 0);
}

TEST_CASE("an arena of no bytes is refused") {
  CHECK_FALSE(BufferArena::create({.bytes = 0}));
}

}  // namespace buffer_arena_test
