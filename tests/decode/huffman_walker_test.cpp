// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/huffman_walker.h"

#include <algorithm>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "headrace/decode/internal/scan_index.h"

namespace headrace::decode::huffman_walker_test {
namespace {

// Codes with 2, 3, 9, 12 and 16 bits, so that every way to find one is taken. The symbols are the caller's.
HuffmanCodes codes_for(std::array<std::uint8_t, 5> symbols) {
  HuffmanCodes codes;
  for (const std::size_t length : {2U, 3U, 9U, 12U, 16U}) codes.counts[length] = 1;
  std::copy(symbols.begin(), symbols.end(), codes.symbols.begin());
  return codes;
}

// 2 bits: 00; 3: 010; 9: 011000000; 12: 011000001000; 16: 0110000010010000.
const HuffmanCodes kDcCodes = codes_for({0, 3, 7, 11, 15});
const HuffmanCodes kAcCodes = codes_for({0x00, 0x11, 0xf0, 0x2a, 0x0f});  // end; run 1; 16 zeros; run 2; 15 bits

ScanLayout layout_of(std::span<const std::uint8_t> data, std::uint32_t mcu_count, std::uint32_t restart_interval = 0) {
  return {.data = data, .mcu_count = mcu_count, .restart_interval = restart_interval, .components = 1, .blocks = 1};
}

void set_codes(HuffmanWalker& walker) {
  walker.set_dc_codes(0, kDcCodes);
  walker.set_ac_codes(0, kAcCodes);
}

// Bits in words, as "011 1", to bytes with stuffed zeros; the last byte is filled with ones.
std::vector<std::uint8_t> bytes_of(const std::string& words) {
  std::string bits;
  for (const char c : words) {
    if (c != ' ') bits += c;
  }
  while (bits.size() % 8 != 0) bits += '1';
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < bits.size(); i += 8) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(bits.substr(i, 8), nullptr, 2)));
    if (bytes.back() == 0xff) bytes.push_back(0);
  }
  return bytes;
}

struct Decoded {
  bool good = false;
  CoefficientBlock block = {};
};

Decoded decode_one(HuffmanWalker& walker) {
  Decoded decoded;
  CoefficientBlock* blocks[] = {&decoded.block};
  decoded.good = walker.decode(blocks);
  return decoded;
}

TEST_CASE("codes of every length are found, and their values have the right sign") {
  HuffmanWalker walker;
  set_codes(walker);
  const auto data = bytes_of(
      "010 101  010 1  011000001000 1000000000  00"               // 5; 0 then 1; 2 zeros then 512; end
      " 011000000 0000000  0110000010010000 000000000000000  00"  // -127; -32767; end
      " 0110000010010000 111111111111111  011000000 00");         // 32767; 16 zeros, end
  walker.begin(layout_of(data, 3));
  const Decoded first = decode_one(walker);
  REQUIRE(first.good);
  CHECK(first.block[0] == 5);
  CHECK(first.block[8] == 1);    // the second in zigzag order
  CHECK(first.block[2] == 512);  // the fifth
  const Decoded second = decode_one(walker);
  REQUIRE(second.good);
  CHECK(second.block[0] == 5 - 127);
  CHECK(second.block[1] == -32767);
  const Decoded third = decode_one(walker);
  REQUIRE(third.good);
  CHECK(third.block[0] == static_cast<std::int16_t>(5 - 127 + 32767));
  CHECK_FALSE(decode_one(walker).good);  // there are only three
}

TEST_CASE("a block may be full, but not more than full") {
  HuffmanWalker walker;
  set_codes(walker);
  std::string pairs;
  for (int i = 0; i < 31; ++i) pairs += " 010 1";  // a zero and a one: 62 coefficients
  const std::string last = " 0110000010010000 100000000000000";
  const auto full = bytes_of("00" + pairs + last + " 00 00");
  walker.begin(layout_of(full, 2));
  const Decoded decoded = decode_one(walker);
  REQUIRE(decoded.good);
  CHECK(decoded.block[63] == 16384);
  CHECK(decode_one(walker).good);

  // What follows the last coefficient looks like the end of a block, but is the next block's first difference.
  // An odd number of pairs, as two of them take one look.
  std::string complete = "00";
  for (int i = 0; i < 3; ++i) complete += " 011000001000 1000000000";  // two zeros and a value: 9 coefficients
  for (int i = 0; i < 27; ++i) complete += " 010 1";
  const auto followed = bytes_of(complete + " 00 00" + " 010 101 00");
  walker.begin(layout_of(followed, 3));
  CHECK(decode_one(walker).block[63] == 1);
  CHECK(decode_one(walker).good);
  CHECK(decode_one(walker).block[0] == 5);

  const auto overfull = bytes_of("00" + pairs + " 010 1" + " 00 00");
  walker.begin(layout_of(overfull, 2));
  CHECK_FALSE(walker.skip());
}

// Coefficients of as many bits as one look takes: the bits at hand end at each place of a look.
TEST_CASE("no look goes beyond the bits that are at hand") {
  HuffmanCodes ac_codes;
  ac_codes.counts[5] = 1;  // 00000, for a value of 6 bits
  ac_codes.symbols[0] = 0x06;
  HuffmanWalker walker;
  walker.set_dc_codes(0, kDcCodes);
  walker.set_ac_codes(0, ac_codes);
  constexpr std::uint32_t kBlocks = 64;
  std::string words;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    words += i % 2 == 0 ? "00" : "010 101";
    for (int k = 1; k < 64; ++k) words += " 00000 101111";
  }
  const auto data = bytes_of(words);
  walker.begin(layout_of(data, kBlocks));
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    CAPTURE(i);
    const Decoded decoded = decode_one(walker);
    REQUIRE(decoded.good);
    CHECK(std::all_of(decoded.block + 1, decoded.block + 64, [](int coefficient) { return coefficient == 47; }));
  }
}

TEST_CASE("codes that nobody has, and data that end too early, are refused") {
  HuffmanWalker walker;
  set_codes(walker);
  const auto unknown = bytes_of("1111 0000 0000 0000 0000");
  walker.begin(layout_of(unknown, 1));
  CHECK_FALSE(walker.skip());

  const auto sound = bytes_of("010 101  010 1 00 00 00");  // two MCUs, three ones behind them
  walker.begin(layout_of(sound, 3));
  CHECK(walker.skip());
  CHECK(walker.skip());
  CHECK_FALSE(walker.skip());
  walker.begin(layout_of(std::span(sound).first(1), 3));
  CHECK_FALSE(walker.skip());
  walker.begin(layout_of({}, 3));
  CHECK_FALSE(walker.skip());
}

TEST_CASE("restart markers have to stand where they belong, with the right number") {
  HuffmanWalker walker;
  set_codes(walker);
  const std::vector<std::uint8_t> piece = bytes_of("010 101 00");  // 5, and no other coefficient
  const auto joined = [&](std::initializer_list<std::uint8_t> marker) {
    std::vector<std::uint8_t> data = piece;
    data.insert(data.end(), marker);
    data.insert(data.end(), piece.begin(), piece.end());
    return data;
  };
  const auto sound = joined({0xff, 0xd0});
  walker.begin(layout_of(sound, 2, 1));
  CHECK(decode_one(walker).block[0] == 5);
  CHECK(decode_one(walker).block[0] == 5);
  const auto filled = joined({0xff, 0xff, 0xff, 0xd0});
  walker.begin(layout_of(filled, 2, 1));
  CHECK(walker.skip());
  CHECK(walker.skip());
  for (const auto& data :
       {joined({0xff, 0xd1}), joined({0xff}), joined({0xff, 0}), joined({}), joined({0, 0xff, 0xd0})}) {
    walker.begin(layout_of(data, 2, 1));
    CHECK(walker.skip());
    CHECK_FALSE(walker.skip());
  }
}

// Random MCUs with many bytes of 0xff and restarts; from each point decoding goes on as it did.
TEST_CASE("decoding can begin at every point that was passed") {
  std::mt19937 random(1);
  for (const std::uint32_t interval : {0U, 1U, 3U}) {
    constexpr std::uint32_t kMcus = 200;
    std::vector<std::uint8_t> data;
    std::string words;
    for (std::uint32_t mcu = 0; mcu < kMcus; ++mcu) {
      if (interval > 0 && mcu > 0 && mcu % interval == 0) {
        const auto part = bytes_of(words);
        data.insert(data.end(), part.begin(), part.end());
        data.push_back(0xff);
        data.push_back(static_cast<std::uint8_t>(0xd0 + (mcu / interval - 1) % 8));
        words.clear();
      }
      words += random() % 2 == 0 ? "0110000010010000 111111111111111" : "010 111";
      for (std::uint32_t i = random() % 4; i > 0; --i) words += "0110000010010000 111111111111111 010 1";
      words += "00";
    }
    const auto part = bytes_of(words);
    data.insert(data.end(), part.begin(), part.end());

    HuffmanWalker walker;
    set_codes(walker);
    walker.begin(layout_of(data, kMcus, interval));
    std::vector<ScanPoint> points;
    std::vector<Decoded> blocks;
    for (std::uint32_t mcu = 0; mcu < kMcus; ++mcu) {
      points.push_back(walker.point());
      blocks.push_back(decode_one(walker));
      REQUIRE(blocks.back().good);
    }
    for (std::uint32_t mcu = kMcus; mcu-- > 0;) {
      REQUIRE(walker.seek(mcu, points[mcu]));
      CHECK(walker.point() == points[mcu]);
      const Decoded again = decode_one(walker);
      REQUIRE(again.good);
      CHECK(std::equal(std::begin(again.block), std::end(again.block), std::begin(blocks[mcu].block)));
      if (mcu + 1 < kMcus) CHECK(walker.point() == points[mcu + 1]);
    }
    CHECK_FALSE(walker.seek(1, {.bit = (data.size() + 1) * 8}));
  }
}

// Nothing but the address sanitizer and valgrind has an opinion on what comes out of it.
TEST_CASE("a walk through noise, from any place, comes to an end") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  HuffmanWalker walker;
  set_codes(walker);
  std::uint64_t walked = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::uint8_t> data(1 + random() % 200);
    for (std::uint8_t& byte : data) {
      byte = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : 0x41 * (random() % 2));
      if (random() % 20 == 0) byte = 0xff;
    }
    walker.begin(layout_of(data, 100, below(3)));
    if (walker.seek(below(100), {.bit = below(data.size() * 8 + 9)})) {
      while (walker.skip()) ++walked;
      static_cast<void>(walker.point());
    }
  }
  CHECK(walked > 0);
}

TEST_CASE("an index comes out of its packed form as it went in") {
  const std::vector<std::uint8_t> data(100'000);
  const ScanLayout layout = layout_of(data, 5000);
  ScanIndex index;
  index.begin(layout);
  const std::uint32_t step = index.step();
  std::mt19937 random(1);
  std::uint64_t bit = 0;
  for (std::uint32_t mcu = step; mcu <= 5000; mcu += step) {
    bit += random() % 2000;
    REQUIRE(index.wants(mcu));
    index.add({.bit = bit, .dc = {static_cast<std::int16_t>(random()), 0, -1, 32767}});
    index.cover(mcu);
  }
  const std::vector<std::byte> packed = index.pack(17);
  ScanIndex other;
  other.begin(layout);
  REQUIRE(other.unpack(packed, 17));
  CHECK(other.covered() == index.covered());
  CHECK(std::equal(other.points().begin(), other.points().end(), index.points().begin(), index.points().end()));
  CHECK_FALSE(other.unpack(packed, 18));
  CHECK(other.covered() == 0);
  CHECK(other.points().size() == 1);
}

}  // namespace
}  // namespace headrace::decode::huffman_walker_test
