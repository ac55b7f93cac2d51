// SPDX-License-Identifier: Apache-2.0
#include "decode/corrupt_files.h"

#include <algorithm>
#include <random>

namespace headrace::test {
namespace {

unsigned at(const Bytes& bytes, std::size_t offset) {
  return offset < bytes.size() ? std::to_integer<unsigned>(bytes[offset]) : 0;
}

bool has_length(unsigned marker) {
  return marker != 0xd8 && marker != 0xd9 && (marker < 0xd0 || marker > 0xd7);
}

void add_truncations(const Bytes& jpeg, std::size_t offset, std::vector<DamagedFile>& files) {
  for (std::size_t extra : {0U, 1U, 2U, 3U, 4U, 9U, 30U}) {
    if (offset + extra > jpeg.size()) continue;
    files.push_back({"cut at " + std::to_string(offset) + " + " + std::to_string(extra),
                     {jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(offset + extra)}});
  }
}

void add_wrong_lengths(const Bytes& jpeg, std::size_t offset, std::vector<DamagedFile>& files) {
  for (unsigned length : {0U, 1U, 2U, 3U, 17U, 255U, 0x7fffU, 0xffffU}) {
    Bytes changed = jpeg;
    changed[offset + 2] = static_cast<std::byte>(length >> 8);
    changed[offset + 3] = static_cast<std::byte>(length);
    files.push_back({"length " + std::to_string(length) + " at " + std::to_string(offset), std::move(changed)});
  }
}

void add_bad_content(const Bytes& jpeg, std::size_t offset, std::vector<DamagedFile>& files) {
  const std::size_t length = at(jpeg, offset + 2) << 8 | at(jpeg, offset + 3);
  const std::size_t end = std::min(jpeg.size(), offset + 2 + length);
  for (unsigned value : {0U, 1U, 0x7fU, 0xffU}) {
    Bytes changed = jpeg;
    std::fill(changed.begin() + static_cast<std::ptrdiff_t>(std::min(end, offset + 5)),
              changed.begin() + static_cast<std::ptrdiff_t>(end), static_cast<std::byte>(value));
    files.push_back({"content " + std::to_string(value) + " at " + std::to_string(offset), std::move(changed)});
  }
  Bytes without = jpeg;
  const auto begin = without.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto stop = without.begin() + static_cast<std::ptrdiff_t>(end);
  without.erase(begin, stop);
  files.push_back({"nothing at " + std::to_string(offset), std::move(without)});
  Bytes twice = jpeg;
  twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(end), jpeg.begin() + static_cast<std::ptrdiff_t>(offset),
               jpeg.begin() + static_cast<std::ptrdiff_t>(end));
  files.push_back({"twice at " + std::to_string(offset), std::move(twice)});
}

}  // namespace

std::vector<std::size_t> marker_offsets(const Bytes& jpeg) {
  std::vector<std::size_t> offsets;
  std::size_t i = 0;
  while (i + 1 < jpeg.size()) {
    const unsigned marker = at(jpeg, i + 1);
    if (at(jpeg, i) != 0xff || marker == 0 || marker == 0xff) {
      ++i;
      continue;
    }
    offsets.push_back(i);
    i += has_length(marker) ? 2 + (at(jpeg, i + 2) << 8 | at(jpeg, i + 3)) : 2;
  }
  return offsets;
}

std::vector<DamagedFile> damage_systematically(const Bytes& jpeg) {
  std::vector<DamagedFile> files;
  for (std::size_t offset : marker_offsets(jpeg)) {
    add_truncations(jpeg, offset, files);
    const unsigned marker = at(jpeg, offset + 1);
    if (!has_length(marker)) continue;
    add_wrong_lengths(jpeg, offset, files);
    add_bad_content(jpeg, offset, files);
    if (marker < 0xc0 || marker > 0xca || marker == 0xc4 || marker == 0xc8) continue;
    Bytes huge = jpeg;  // frame header: precision at 4, height at 5, width at 7
    for (std::size_t k = 5; k < 9; k += 2) {
      huge[offset + k] = std::byte{0xff};
      huge[offset + k + 1] = std::byte{0xdc};
    }
    files.push_back({"65500 x 65500", std::move(huge)});
  }
  return files;
}

DamagedFile damage_randomly(const Bytes& file, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes changed = file;
  const std::uint64_t times = 1 + random() % 8;
  for (std::uint64_t i = 0; i < times && changed.size() > 4; ++i) {
    const auto place = static_cast<std::ptrdiff_t>(random() % changed.size());
    const auto length = static_cast<std::ptrdiff_t>(
        std::min<std::uint64_t>(1 + random() % 16, changed.size() - static_cast<std::uint64_t>(place)));
    const auto begin = changed.begin() + place;
    switch (random() % 4) {
      case 0:
        std::generate(begin, begin + length, [&] { return static_cast<std::byte>(random()); });
        break;
      case 1:
        changed.erase(begin, begin + length);
        break;
      case 2:
        changed.insert(begin, static_cast<std::size_t>(length), static_cast<std::byte>(random()));
        break;
      default:
        *begin ^= static_cast<std::byte>(1U << random() % 8);
    }
  }
  return {"seed " + std::to_string(seed), std::move(changed)};
}

Bytes with_many_scans(std::size_t scans) {
  const Bytes file = make_jpeg({.size = {64, 64}, .progressive = true});
  std::vector<std::size_t> starts;
  for (std::size_t offset : marker_offsets(file)) {
    if (at(file, offset + 1) == 0xda) starts.push_back(offset);
  }
  const auto last = file.begin() + static_cast<std::ptrdiff_t>(starts.back());
  const auto end = file.end() - 2;  // the end marker
  Bytes result(file.begin(), end);
  for (std::size_t i = starts.size(); i < scans; ++i) result.insert(result.end(), last, end);
  result.insert(result.end(), end, file.end());
  return result;
}

}  // namespace headrace::test
