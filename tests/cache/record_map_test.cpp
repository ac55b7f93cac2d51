// SPDX-License-Identifier: Apache-2.0
// Packs of hand-made bytes, sound and hostile.
#include "headrace/cache/record_map.h"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kPage = 4096;

template <typename Number>
void put(std::string& bytes, std::size_t at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes[at + i] = static_cast<char>(number >> (8 * i));
}

std::string npy(const std::string& dictionary, std::size_t content_bytes) {
  std::string bytes("\x93NUMPY\x01\x00\x00\x00", 10);
  put<std::uint16_t>(bytes, 8, static_cast<std::uint16_t>(dictionary.size()));
  return bytes + dictionary + std::string(content_bytes, 'x');
}

struct Entry {
  std::string key;
  std::string value;
};

// An LMDB with one leaf page; an empty value stands for one on the overflow page at the end, of 5000 bytes.
std::string lmdb(const std::vector<Entry>& entries) {
  std::string bytes(5 * kPage, '\0');
  for (std::size_t meta = 0; meta < 2; ++meta) {
    const std::size_t at = meta * kPage + 16;
    put<std::uint32_t>(bytes, at, 0xBEEFC0DE);
    put<std::uint32_t>(bytes, at + 4, 1);
    put<std::uint32_t>(bytes, at + 24, kPage);
    put<std::uint64_t>(bytes, at + 104, meta == 1 ? entries.size() : 0);
    put<std::uint64_t>(bytes, at + 112, meta == 1 ? 2 : UINT64_MAX);  // the first meta page is the older one
    put<std::uint64_t>(bytes, at + 128, meta);
  }
  const std::size_t leaf = 2 * kPage;
  put<std::uint16_t>(bytes, leaf + 10, 0x02);
  put<std::uint16_t>(bytes, leaf + 12, static_cast<std::uint16_t>(16 + 2 * entries.size()));
  std::size_t node = kPage;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    const bool big = value.empty();
    node -= (8 + key.size() + (big ? 8 : value.size()) + 1) / 2 * 2;
    put<std::uint16_t>(bytes, leaf + 16 + 2 * i, static_cast<std::uint16_t>(node));
    put<std::uint32_t>(bytes, leaf + node, big ? 5000 : static_cast<std::uint32_t>(value.size()));
    put<std::uint16_t>(bytes, leaf + node + 4, big ? 1 : 0);
    put<std::uint16_t>(bytes, leaf + node + 6, static_cast<std::uint16_t>(key.size()));
    bytes.replace(leaf + node + 8, key.size(), key);
    if (big) put<std::uint64_t>(bytes, leaf + node + 8 + key.size(), 3);
    bytes.replace(leaf + node + 8 + key.size(), value.size(), value);
  }
  return bytes;
}

std::string record_io(std::uint32_t magic = 0xced7230a) {
  std::string bytes(40, '\0');
  put(bytes, 0, magic);
  put(bytes, 16, magic);
  return bytes;
}

class Packs {
 public:
  Packs() : folder_(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  io::Result<RecordMap> map(const std::string& name, const std::string& bytes, std::string_view spec = "auto") const {
    dir_.write(name, bytes);
    return open_record_map(folder_.get(), name, spec);
  }
  void write(const std::string& name, const std::string& bytes) const { dir_.write(name, bytes); }
  // The error is one line that names the file.
  void refuse(const std::string& name, const std::string& bytes, std::string_view why,
              std::string_view spec = "auto") const {
    const auto map = this->map(name, bytes, spec);
    REQUIRE_FALSE(map.has_value());
    const std::string message = map.error().message();
    INFO(message);
    CHECK(message.find(why) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }

 private:
  test::TempDir dir_;
  io::UniqueFd folder_;
};

void check_extent(const RecordMap& map, std::uint64_t record, std::uint64_t offset, std::uint32_t length) {
  CHECK(map.extent(record).offset == offset);
  CHECK(map.extent(record).length == length);
}

constexpr const char* kRows = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }\n";

}  // namespace

TEST_CASE("a row of an .npy file is a record") {
  const auto map = Packs().map("a.npy", npy(kRows, 60));
  REQUIRE(map.has_value());
  CHECK(map->count() == 3);
  check_extent(*map, 2, 10 + std::string_view(kRows).size() + 40, 20);
}

TEST_CASE("an .npy file that has no rows of one size is refused") {
  const Packs packs;
  packs.refuse("a.npy", npy(kRows, 59), "a.npy: records lie outside");
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5), }", 60), "Fortran");
  packs.refuse("a.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 60), "no fixed size");
  packs.refuse("a.npy", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 60), "fixed size");
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5", 60), "makes no sense");
  const std::string huge = "4611686018427387904";
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, " + huge + ", 4), }", 60), "sense");
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + huge + ",), }", 60), "no pack");
  packs.refuse("a.npy", npy(kRows, 60).substr(0, 40), "outside of the file");
}

TEST_CASE("a stride makes records of any file, beginning at an offset") {
  const Packs packs;
  const auto map = packs.map("raw.bin", std::string(28, 'x'), "stride=8,offset=4");
  REQUIRE(map.has_value());
  CHECK(map->count() == 3);
  check_extent(*map, 1, 12, 8);
  packs.refuse("raw.bin", std::string(28, 'x'), "no whole records", "stride=8");
  packs.refuse("raw.bin", std::string(28, 'x'), "no whole records", "stride=8,offset=36");
  packs.refuse("raw.bin", std::string(28, 'x'), "--records", "stride=0");
  packs.refuse("raw.bin", std::string(28, 'x'), "--records", "stride=8,offset=");
  packs.refuse("raw.bin", std::string(28, 'x'), "--records", "pickle");
  packs.refuse("raw.bin", std::string(28, 'x'), "raw.bin: is no pack");
}

TEST_CASE("a value of an LMDB is a record, numbered by its key where all keys are numbers") {
  const Packs packs;
  const auto cursor = packs.map("data.mdb", lmdb({{"a", "12345"}, {"b", ""}, {"length", "2"}}));
  REQUIRE(cursor.has_value());
  CHECK(cursor->count() == 2);
  check_extent(*cursor, 0, 3 * kPage - 14 + 9, 5);
  check_extent(*cursor, 1, 3 * kPage + 16, 5000);  // on pages of its own

  // As a cursor goes: "0", "1", "10", "2".
  std::vector<Entry> entries = {{"0", "a"}, {"1", "bb"}, {"10", "ccc"}};
  for (char key = '2'; key <= '9'; ++key) entries.push_back({std::string(1, key), "dddd"});
  const auto numbered = packs.map("data.mdb", lmdb(entries));
  REQUIRE(numbered.has_value());
  CHECK(numbered->extent(1).length == 2);
  CHECK(numbered->extent(2).length == 4);
  CHECK(numbered->extent(10).length == 3);
}

TEST_CASE("a hostile LMDB is refused") {
  const Packs packs;
  const std::string sound = lmdb({{"a", "12345"}, {"b", ""}});
  const auto refuse = [&](std::size_t at, auto number, std::string_view why) {
    std::string bytes = sound;
    put(bytes, at, number);
    packs.refuse("data.mdb", bytes, why);
  };
  const std::size_t leaf = 2 * kPage;
  const std::size_t first = leaf + kPage - 14;
  const std::size_t second = first - 18;
  refuse(kPage + 16 + 112, std::uint64_t{1000}, "outside of the file");  // the root
  refuse(kPage + 16 + 104, std::uint64_t{1} << 60, "another number");    // the count
  refuse(kPage + 16 + 24, std::uint32_t{8192}, "contradict");            // the page size
  refuse(16 + 24, std::uint32_t{0}, "page size");
  refuse(leaf + 12, std::uint16_t{65535}, "makes no sense");       // entries beyond the page
  refuse(leaf + 16, std::uint16_t{4092}, "outside of its page");   // a node at the end
  refuse(first, std::uint32_t{6000}, "outside of its page");       // a value
  refuse(first + 6, std::uint16_t{60000}, "outside of its page");  // a key
  refuse(first + 4, std::uint16_t{2}, "named databases");
  refuse(second + 9, std::uint64_t{1} << 50, "outside of the file");  // pages of a value
  refuse(second, std::uint32_t{0xFFFFFFFF}, "outside of the file");   // and its length
  packs.refuse("data.mdb", sound.substr(0, 2 * kPage + 100), "outside of the file");

  std::string circle = sound;
  put<std::uint16_t>(circle, leaf + 10, 0x01);
  put<std::uint32_t>(circle, first, 2);  // a branch that leads to itself
  put<std::uint16_t>(circle, first + 4, 0);
  packs.refuse("data.mdb", circle, "circle");
}

TEST_CASE("a line of a RecordIO index is a record, up to where the next one begins") {
  const Packs packs;
  packs.write("a.idx", "0\t16\n1\t0\r\n");
  const auto map = packs.map("a.rec", record_io());
  REQUIRE(map.has_value());
  CHECK(map->count() == 2);
  check_extent(*map, 0, 16, 24);
  check_extent(*map, 1, 0, 16);
}

TEST_CASE("a RecordIO index that does not fit its file is refused") {
  const Packs packs;
  const auto refuse = [&](const std::string& index, std::string_view why) {
    packs.write("a.idx", index);
    packs.refuse("a.rec", record_io(), why);
  };
  refuse("", "empty");
  refuse("0 16\n", "key<TAB>offset");
  refuse("0\t16x\n", "key<TAB>offset");
  refuse("0\t99999999999999999999999\n", "key<TAB>offset");
  refuse("0\t0\n1\t36\n", "outside of the .rec");
  refuse("0\t0\n1\t1000\n", "outside");
  refuse("0\t4\n", "not the index");
  refuse(std::string(100'000, '7'), "key<TAB>offset");
  packs.refuse("missing.rec", record_io(), "missing.idx");
}

}  // namespace headrace::cache
