// SPDX-License-Identifier: Apache-2.0
// The one seam to the storage below: asynchronous reads and writes, completed on the thread that drives the engine.
//
//   auto engine = open_engine({});   // on the thread that will drive it; the pread pool where io_uring is refused
//   Operation read = Operation::read_path(dir_fd, "a/b.jpg", 0, size, std::move(buffer));
//   read.on_complete = [](Operation& self, Result<std::uint64_t> bytes) { ... };
//   (*engine)->submit(read);
//   while ((*engine)->in_flight() > 0) (*engine)->wait(deadline);
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "headrace/io/buffer.h"
#include "headrace/io/file_attributes.h"
#include "headrace/io/result.h"

namespace headrace::io {

// How the kernel's page cache takes part in a read.
enum class CacheMode : std::uint8_t {
  kBuffered,  // through the page cache; what was read stays there
  kDirect,    // O_DIRECT; the engine widens offset and length to the file's alignment and trims the result
};

// Operation::wanted of what nobody will wait for.
inline constinit const std::atomic<bool> kNobodyWaits = false;

// One read or write.
// Ownership: the caller's; must neither move nor die until on_complete has run (exactly once).
// The buffer and `path` belong to the operation until then.
// Thread-safety: the driving thread only. IoThread takes operations from any thread and hands them to that one.
struct Operation {
  enum class Kind : std::uint8_t { kReadPath, kRead, kWrite };

  Kind kind = Kind::kRead;
  CacheMode cache_mode = CacheMode::kBuffered;
  int fd = -1;                 // kReadPath: the directory that `path` starts from; else the file
  bool opens_wait = false;     // kReadPath: an open may wait for a server (FileSystemTraits::opens_wait)
  const char* path = nullptr;  // kReadPath: relative; never leaves the directory (RESOLVE_BENEATH | NO_SYMLINKS)
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;  // reads: at most this many from offset on; writes: buffer bytes written
  Buffer buffer;                   // reads: capacity >= length rounded out to kBufferAlignment at both ends
  std::size_t skip_bytes = 0;      // set by the engine: content starts at buffer.data() + skip_bytes (direct reads)
  // Reads: the version of the file whose bytes are wanted; lasts until on_complete. The engine compares it with the
  // opened file before the first byte and after the last one. nullptr: any version, also a mix of several.
  const FileAttributes* expected = nullptr;
  // Whether somebody waits for it by now, as long as that may change; lasts until on_complete. What nobody waits for
  // starts after what somebody waits for. nullptr: somebody waits.
  const std::atomic<bool>* wanted = nullptr;
  FileAttributes found;  // set by the engine with kStale: the version that the opened file has
  // kReadPath: whoever has asked for it gets the open file, and closes it. Set before on_complete, in the cache mode
  // `opened_for`, where the read was a success; else -1. The kernel reads nothing ahead in such a file.
  bool keep_open = false;
  int kept_fd = -1;
  CacheMode opened_for = CacheMode::kBuffered;

  // `bytes` is how many bytes of content lie at data(): less than length_bytes only at end of file.
  // Errors: kNotFound, kPermission, kNoSpace, kSystem; kStale without an os_errno: the file is not the one expected;
  // kCancelled: the engine was destroyed. Runs on the driving thread, may submit further operations, must not block.
  void (*on_complete)(Operation& self, Result<std::uint64_t> bytes) = nullptr;
  void* context = nullptr;  // for on_complete

  [[nodiscard]] std::byte* data() { return buffer.data() + skip_bytes; }

  [[nodiscard]] static Operation read_path(int dir_fd, const char* path, std::uint64_t offset, std::uint64_t length,
                                           Buffer buffer);
  [[nodiscard]] static Operation read(int fd, std::uint64_t offset, std::uint64_t length, Buffer buffer);
  [[nodiscard]] static Operation write(int fd, std::uint64_t offset, Buffer buffer);  // writes buffer.size() bytes

  // Engine-private state; callers leave it alone.
  struct Internal {
    enum class Place : std::uint8_t { kIdle, kQueued, kStarted, kFinished };

    Operation* next = nullptr;
    std::uint64_t progress_bytes = 0;  // transferred, counted from where the (widened) transfer began
    std::int64_t outcome = 0;          // bytes of content or -errno, once kFinished
    std::uint32_t slot = 0;            // io_uring: names the operation in completions
    int opened_fd = -1;                // io_uring: the file between open and close
    Place place = Place::kIdle;
    bool stale = false;                           // the file is not the one expected
    bool stopped = false;                         // the engine goes down: ends as soon as it can, with kCancelled
    CacheMode cache_mode = CacheMode::kBuffered;  // what is used; kBuffered where the one asked for was refused
    std::uint8_t retry_count = 0;
  } internal = {};
};

struct EngineInfo {
  std::string name;                      // "io_uring" or "pread"
  std::string fallback_reason;           // why not io_uring; empty when it is, or when pread was asked for
  unsigned queue_depth = 0;              // operations that the device is given at once, at present
  unsigned queue_depth_max = 0;          // its bound
  std::vector<std::string> limits;       // what this kernel or container lacks: one line for each thing
  std::uint64_t buffered_fallbacks = 0;  // operations whose cache mode was refused and that went through the page cache
};

// Thread-safety: one driving thread, which is also the one that opened the engine; wake() and info() from any thread.
class Engine {
 public:
  // Cancels what is in flight and waits until every on_complete has run. What these submit meanwhile is cancelled too.
  virtual ~Engine() = default;

  // Takes the operation, which starts at the next wait() at the latest. Never fails: errors reach on_complete.
  virtual void submit(Operation& operation) = 0;
  // Starts what was submitted and runs completions; nothing else runs them. Returns when at least one has run, when the
  // deadline has passed, or after wake(), also when wake() was called before.
  virtual void wait(std::chrono::steady_clock::time_point deadline) = 0;
  virtual void wake() = 0;
  [[nodiscard]] virtual std::size_t in_flight() const = 0;
  // Of these, what has not started, because the device has enough to do.
  [[nodiscard]] virtual std::size_t waiting() const = 0;
  // Operation::wanted of some that have not started has become true: they start before the others.
  virtual void hurry() = 0;
  [[nodiscard]] virtual EngineInfo info() const = 0;
  // Makes operations on `fd` cheaper (registered file). Optional: an engine that cannot keeps using the descriptor.
  // `fd` stays open until unregister_file(fd).
  virtual void register_file(int fd) = 0;
  virtual void unregister_file(int fd) = 0;
  // Tells the engine whether the device has turned out to seek. A seeking device gets few operations at once.
  virtual void set_rotational(bool rotational) = 0;
};

struct EngineOptions {
  enum class Kind : std::uint8_t { kAutomatic, kUring, kPread };
  Kind kind = Kind::kAutomatic;    // kAutomatic obeys HEADRACE_ENGINE=uring|pread, then tries io_uring
  unsigned queue_depth_max = 128;  // more in flight costs memory (a buffer each) and rarely adds throughput
  bool rotational = false;         // few in flight at first: a head seeks to one place at a time
};

// Errors: kInvalidArgument for a bad HEADRACE_ENGINE; kUnsupported when kUring is forced and refused.
[[nodiscard]] Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options);

// Carries out one operation without an engine: the calling thread opens and reads, and waits for the device.
// on_complete has run when this returns, with the outcome that an engine would have given. Any thread.
void run_here(Operation& operation);

}  // namespace headrace::io
