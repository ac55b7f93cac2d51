// SPDX-License-Identifier: Apache-2.0
// Which ranges of large files are part of a stream: readers that work through a file from somewhere on.
//
//   const bool in_stream = streams.note(entry, offset, length);
//
// A file may have several readers at once, and the kernel sends the READs of one reader side by side, so that they
// arrive out of their order. So a range continues a run if it begins near where that run has got to: not further away
// than one length ahead, nor two behind. A run is a stream once enough was read in it: a record of a packed file that
// is read by page faults is a run of some READs, too, and chunks fetched for it would be of no use.
//
// Thread-safety: every function from any thread.
#pragma once

#include <array>
#include <cstdint>

#include "headrace/cache/catalog.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

// A quarter of a chunk: what is read without the chunk costs a stream once, and the chunk costs a record that stops
// there four times its bytes. Records of 108 kB by page faults are runs of 384 KiB (LMDB, Linux 6.18).
inline constexpr std::uint64_t kStreamBytes = 1 << 20;
// From the start of a file most readers go on; those of packed files look at a header. The kernel's first window is at
// most this, so that a reader of whole files gets no byte twice.
inline constexpr std::uint64_t kStreamFromStartBytes = 256 << 10;

class Streams {
 public:
  // Notes a read. True: it is part of a stream, and the reader is expected to go on.
  [[nodiscard]] bool note(EntryId entry, std::uint64_t offset, std::uint64_t length);

 private:
  struct Run {
    EntryId entry = kNoEntry;
    bool from_start = false;
    std::uint64_t end = 0;    // where it has got to
    std::uint64_t bytes = 0;  // that were read in it
    std::uint64_t used = 0;   // the shard's clock then
  };
  // 16 runs in each of 64 shards, 40 KiB: the workers of two loaders in one file. Where more meet, the run that was
  // left alone for longest goes, and its reader begins another.
  struct Shard {
    io::Mutex mutex;
    std::uint64_t clock HEADRACE_GUARDED_BY(mutex) = 0;
    std::array<Run, 16> runs HEADRACE_GUARDED_BY(mutex);
  };

  std::array<Shard, 64> shards_;
};

}  // namespace headrace::cache
