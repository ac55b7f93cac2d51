// SPDX-License-Identifier: Apache-2.0

#include "support/fault_engine.h"

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "io/engines.h"
#include "support/temp_dir.h"

namespace fault_engine_test {

using namespace headrace::io;
using namespace headrace::test;

namespace {

std::unique_ptr<FaultEngine> faulty(const FaultOptions& options) {
  auto inner = open_engine({});
  REQUIRE(inner);
  return open_fault_engine(std::move(*inner), options);
}

// A folder with one file "f" of 10 000 patterned bytes.
struct OneFile {
  TempDir folder;
  std::string content{as_text(pattern_bytes(10'000, 1))};
  std::string path = folder.write("f", content).string();
  DirFd dir{folder.path()};
  [[nodiscard]] Operation read() const {
    return Operation::read_path(dir.get(), "f", 0, content.size(), buffer_for(0, content.size()));
  }
};

int differing_bits(const std::string& left, const std::string& right) {
  int bits = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    bits += std::popcount(
        static_cast<unsigned char>(static_cast<unsigned char>(left[i]) ^ static_cast<unsigned char>(right[i])));
  }
  return bits;
}

Buffer filled_buffer(std::byte value) {
  Buffer buffer = buffer_for(0, kBufferAlignment);
  std::fill_n(buffer.data(), kBufferAlignment, value);
  buffer.set_size(kBufferAlignment);
  return buffer;
}

}  // namespace

TEST_CASE("injected errors are values, and leave the first operations alone as asked") {
  const OneFile file;
  auto engine = faulty({.after_operations = 2, .error_one_in = 1});
  for (int i = 0; i < 4; ++i) {
    Tracked read(file.read());
    CHECK(run(*engine, read).has_value() == (i < 2));
    if (i >= 2) CHECK(read.result->error().os_errno == EIO);
  }
  CHECK(engine->counts().errors == 2);
}

TEST_CASE("an injected short read ends early with the right bytes") {
  const OneFile file;
  auto engine = faulty({.short_read_one_in = 1});
  Tracked read(file.read());
  REQUIRE(run(*engine, read));
  CHECK(**read.result < file.content.size());
  CHECK(read.text() == file.content.substr(0, **read.result));
}

TEST_CASE("an injected bit flip changes exactly one bit") {
  const OneFile file;
  auto engine = faulty({.bit_flip_one_in = 1});
  Tracked read(file.read());
  REQUIRE(run(*engine, read) == file.content.size());
  CHECK(differing_bits(read.text(), file.content) == 1);
}

TEST_CASE("a lost write is reported as done and leaves the file as it was, a full disk is an error") {
  const TempDir folder;
  const DirFd file(folder.path() / "segment", O_RDWR | O_CREAT);
  auto engine = faulty({});
  Tracked good(Operation::write(file.get(), 0, filled_buffer(std::byte{1})));
  REQUIRE(run(*engine, good) == kBufferAlignment);
  engine->set_options({.lost_write_one_in = 1});
  Tracked lost(Operation::write(file.get(), 0, filled_buffer(std::byte{2})));
  REQUIRE(run(*engine, lost) == kBufferAlignment);
  engine->set_options({.no_space_one_in = 1});
  Tracked full(Operation::write(file.get(), 0, filled_buffer(std::byte{3})));
  REQUIRE_FALSE(run(*engine, full));
  CHECK(full.result->error().code == ErrorCode::kNoSpace);
  Tracked read(Operation::read(file.get(), 0, kBufferAlignment, buffer_for(0, kBufferAlignment)));
  REQUIRE(run(*engine, read) == kBufferAlignment);
  CHECK(read.text() == std::string(kBufferAlignment, '\1'));
}

TEST_CASE("the same seed gives the same faults") {
  const OneFile file;
  const auto outcomes = [&file](std::uint64_t seed) {
    auto engine = faulty({.seed = seed, .error_one_in = 3, .delay_one_in = 4});
    std::string pattern;
    for (int i = 0; i < 40; ++i) {
      Tracked read(file.read());
      pattern += run(*engine, read) ? '.' : 'E';
    }
    return pattern;
  };
  CHECK(outcomes(5) == outcomes(5));
  CHECK(outcomes(5) != outcomes(6));
}

TEST_CASE("delayed and reordered operations all complete once, also on destruction") {
  const OneFile file;
  std::vector<std::unique_ptr<Tracked>> reads;
  {
    auto engine = faulty({.seed = 3, .delay_one_in = 2, .reorder = true});
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 100; ++i) {
        reads.push_back(std::make_unique<Tracked>(file.read()));
        engine->submit(reads.back()->operation);
      }
      if (round == 0) drain(*engine);
    }
    CHECK(engine->in_flight() == 100);
  }
  for (auto& read : reads) {
    CHECK(read->completions == 1);
    if (*read->result) CHECK(read->text() == file.content);
  }
}

}  // namespace fault_engine_test
