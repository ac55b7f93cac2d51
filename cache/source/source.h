// SPDX-License-Identifier: Apache-2.0
// The data set's own storage: the last tier, only ever read. A folder (folder_source.h), or what else keeps files.
//
//   SourceRead read{.path = path.c_str(), .range = {0, size}, .buffer = std::move(buffer), .on_done = ...};
//   if (!source->read_now(read)) source->read(read);
//
// A read that fails for a reason that may pass is tried again. A read names the version of the file that it wants and
// gets bytes of that one alone. Where the file is another version the read ends with kStale.
//
// Thread-safety: every function from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "headrace/cache/chunk.h"
#include "headrace/cache/object_store.h"
#include "headrace/cache/source/kept_files.h"
#include "headrace/cache/source/source_root.h"
#include "headrace/cache/source/source_tree.h"
#include "headrace/cache/tier.h"
#include "headrace/io/buffer.h"
#include "headrace/io/engine.h"

namespace headrace::cache {

// Whether a read failed because the file is another version. ESTALE of a server is its word, and says nothing of that.
inline bool is_other_version(const io::Error& error) {
  return error.code == io::ErrorCode::kStale && error.os_errno == 0;
}

class FolderSource;

// What a FolderSource needs for a read under way. It lies in the read: for a local file nothing is allocated.
struct FolderRead {
  FolderSource* source = nullptr;
  std::shared_ptr<SourceRoot> root = {};      // what `operation` reads below
  std::shared_ptr<const KeptFile> file = {};  // that was open already; null: `operation` opens it
  unsigned attempt = 0;
  io::Operation operation = {};
};

// Ownership: the caller's; must neither move nor die until on_done has run (exactly once, also at shutdown).
struct SourceRead {
  const char* path = nullptr;  // relative to the source; lasts until on_done
  ChunkRange range;            // all of it lies within the catalogued size; empty: the file is compared, not read
  Identity identity;           // the version of the file that is wanted; no other version's bytes are delivered
  io::Buffer buffer;           // capacity: the range in whole pages; given back, filled, on success
  bool ahead = false;          // nobody waits for it yet
  const std::atomic<bool>* wanted = nullptr;  // of one that is `ahead`, as of io::Operation
  bool here = false;                          // the calling thread may wait for it
  EntryId keep = kNoEntry;  // the file, which stays open for the next read of it; kNoEntry: it is closed
  // Runs on the source's I/O thread, or on the thread that waits, and must not block. On success `data` has
  // range.length bytes.
  void (*on_done)(SourceRead& self, Status status) = nullptr;
  void* context = nullptr;
  std::byte* data = nullptr;

  FolderRead folder = {};  // private to FolderSource
};

class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  virtual void read(SourceRead& read) = 0;
  // Somebody waits now for a read that was `ahead`. The read may have ended: only its address is compared. Nothing
  // comes of it where the read is handed over in the same moment.
  virtual void hurry(const SourceRead* read) = 0;
  // Fills the buffer on the calling thread where that takes no longer than handing the read over. True: done, on_done
  // does not run.
  [[nodiscard]] virtual bool read_now(SourceRead& read) = 0;
  // Whether the path leads to this version of the file, where the calling thread can tell without the I/O thread: that
  // takes no longer than handing a read over. False: no, or that a read with an empty range has to tell.
  [[nodiscard]] virtual bool has_now(const char* path, const Identity& identity) = 0;
  // The file is another, or gone: what is open of it is of no use any more.
  virtual void let_go(EntryId entry) = 0;

  // Runs a task on the I/O thread.
  virtual void post(std::function<void()> task) = 0;
  // Nothing is tried again, and no file stays open, from now on. TimerThread::stop() follows, then join().
  virtual void stop_retrying() = 0;
  // Waits until the I/O thread has finished the completion that it is in.
  virtual void settle() = 0;
  // Ends what is in flight (kCancelled) and joins the threads.
  virtual void join() = 0;

  // What the reads read from. Of a folder that was unmounted and mounted anew it is another one.
  [[nodiscard]] virtual std::shared_ptr<SourceTree> tree() const = 0;
  [[nodiscard]] virtual TierStats stats() const = 0;
  [[nodiscard]] virtual io::EngineInfo engine() const = 0;
  [[nodiscard]] virtual std::optional<ObjectStoreStats> bucket_stats() const { return std::nullopt; }

 protected:
  Source() = default;
};

}  // namespace headrace::cache
