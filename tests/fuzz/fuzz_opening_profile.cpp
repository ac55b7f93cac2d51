// SPDX-License-Identifier: Apache-2.0
// libFuzzer target over what is kept of openings. By hand, for longer than the test has:
//   write_opening_corpus corpus && fuzz_opening_profile -max_total_time=3600 corpus
//
// The hash of an input is made right, so that what lies behind it is reached.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <xxhash.h>

#include "headrace/cache/opening_profile.h"

namespace {

using headrace::cache::OpeningProfile;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHashAt = 16;
  constexpr std::size_t kHeaderBytes = 24;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  if (size >= kHeaderBytes) {
    const std::uint64_t hash = XXH3_64bits(bytes.data() + kHeaderBytes, size - kHeaderBytes);
    std::memcpy(bytes.data() + kHashAt, &hash, sizeof hash);
  }
  const auto profile = OpeningProfile::parse(bytes);
  if (!profile) return 0;
  check(profile->files.size() <= OpeningProfile::kFilesMax && profile->range_count() <= OpeningProfile::kRangesMax);
  for (const auto& opening : profile->files) {
    check(!opening.path.empty());
    for (const auto& range : opening.ranges) {
      check(range.length > 0 && range.length <= OpeningProfile::kRangeBytesMax);
      check(range.offset <= opening.identity.size_bytes && range.length <= opening.identity.size_bytes - range.offset);
    }
  }
  return 0;
}
