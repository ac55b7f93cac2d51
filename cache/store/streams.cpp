// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/streams.h"

#include <algorithm>

#include "headrace/cache/chunk.h"

namespace headrace::cache {
namespace {

bool continues(std::uint64_t end, std::uint64_t offset, std::uint64_t length) {
  return offset >= end ? offset - end <= length : end - offset <= 2 * length;
}

}  // namespace

bool Streams::note(EntryId entry, std::uint64_t offset, std::uint64_t length) {
  Shard& shard = shards_[hash_of({entry, 0}) % shards_.size()];
  const io::MutexLock lock(shard.mutex);
  Run* run = &shard.runs.front();
  for (Run& each : shard.runs) {
    if (each.entry == entry && continues(each.end, offset, length)) {
      run = &each;
      break;
    }
    if (each.used < run->used) run = &each;
  }
  if (run->entry != entry || !continues(run->end, offset, length)) {
    *run = {.entry = entry, .from_start = offset == 0, .end = offset};
  }
  run->end = std::max(run->end, offset + length);
  run->bytes += length;
  run->used = ++shard.clock;
  return run->bytes >= (run->from_start ? kStreamFromStartBytes : kStreamBytes);
}

}  // namespace headrace::cache
