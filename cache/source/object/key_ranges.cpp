// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/key_ranges.h"

#include <algorithm>
#include <bitset>

namespace headrace::cache {
namespace {

// More parts than requests in flight only make more requests that find nothing.
constexpr std::size_t kPartsMax = 256;
constexpr unsigned kAscii = 128;

std::size_t common_bytes(std::string_view one, std::string_view other) {
  const auto differ = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(differ.first - one.begin());
}

// Which characters names are made of. '/' ends a name, and half of a UTF-8 character is not to be sent.
std::bitset<kAscii> characters_of(std::span<const std::string_view> names, std::size_t folder_bytes) {
  std::bitset<kAscii> seen;
  for (const std::string_view name : names) {
    for (const char c : name.substr(std::min(folder_bytes, name.size()))) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte > ' ' && byte < 0x7f && byte != '/') seen.set(byte);
    }
  }
  return seen;
}

}  // namespace

std::vector<KeyRange> split(KeyRange& range, std::span<const std::string_view> names) {
  const std::bitset<kAscii> characters = characters_of(names, range.folder.size());
  // Cuts behind this place would make parts that are smaller than what was listed before the cut.
  const std::size_t deepest = std::min(common_bytes(range.first, range.last), range.last.size() - 1);
  std::vector<std::string> cuts;
  for (std::size_t at = range.folder.size(); at <= deepest; ++at) {
    const auto now = static_cast<unsigned char>(range.last[at]);
    for (unsigned c = now + 1U; c < kAscii; ++c) {
      if (!characters.test(c)) continue;
      std::string cut = range.last.substr(0, at) + static_cast<char>(c);
      if (range.until.empty() || cut < range.until) cuts.push_back(std::move(cut));
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.size() > kPartsMax) cuts.resize(kPartsMax);  // the last part goes to the end, and is cut again
  std::vector<KeyRange> parts;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::string& until = i + 1 < cuts.size() ? cuts[i + 1] : range.until;
    parts.push_back({.folder = range.folder, .after = cuts[i], .until = until});
  }
  if (!cuts.empty()) range.until = cuts.front();
  range.pages = 0;
  range.first = range.last;
  return parts;
}

}  // namespace headrace::cache
