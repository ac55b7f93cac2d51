// SPDX-License-Identifier: Apache-2.0
// The data set as a read-only mount whose files lie in the kernel's page cache before they are opened.
//
//   auto store = cache::Store::open({.source = "/data/imagenet", .source_fd = fd});  // fd: opened before mounting
//   auto mount = Mount::start(**store, {.mountpoint = "/mnt/imagenet", .ram_bytes = 8ULL << 30, .order = order});
//   (*mount)->wait();   // until stop(), fusermount3 -u or umount
//
// The tree is answered from the catalog without I/O. What READ asks for comes from the Store, on its threads. Upcoming
// samples are pushed into the page cache along the order, within ram_bytes; the reader is followed by inotify.
//
// Thread-safety: every function from any thread. Ownership: the Store and its source outlive the Mount.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/revalidate.h"
#include "headrace/cache/store.h"
#include "headrace/fuse/channel.h"
#include "headrace/io/result.h"

namespace headrace::fuse {

using io::Result;
using io::Status;

// A read-only overlayfs over the mount answers the ioctl that Python before 3.14 sends on each open() in the kernel.
enum class OverlayMode : std::uint8_t {
  kOff,
  kIfPossible,  // without it when it cannot be had (no root, no overlayfs); MountStats::fallbacks says so
  kRequired,    // an error when it cannot be had
};

struct MountOptions {
  std::filesystem::path mountpoint;      // an empty directory, or the source itself
  std::string source_name = "headrace";  // what mount(8) shows as the source
  std::uint64_t ram_bytes = 0;  // what may lie in the page cache by pushing, the mount's RAM tier; 0: nothing is pushed
  std::shared_ptr<const cache::Order> order;  // null: unknown; samples are then pushed in the order of the catalog
  std::uint64_t first_epoch = 0;
  bool learn_order = false;             // where `order` is null: find it out from the opens
  std::filesystem::path order_records;  // where learned orders are kept from run to run; empty: nowhere
  bool allow_other = false;             // other users may read, as the files' permissions allow
  bool over_source = false;             // the mount point has content that the mount hides: the source itself
  OverlayMode overlay = OverlayMode::kOff;
  // Threads that answer requests. 0: one per core, 2 to 8, and one more: all but one may wait for a local disk.
  unsigned session_threads = 0;
};

struct RequestCount {
  std::string_view name;  // "LOOKUP", "READ", ...
  std::uint64_t count = 0;
};

struct MountStats {
  std::vector<RequestCount> requests;  // kinds that arrived at least once
  std::uint64_t request_total = 0;
  std::uint64_t read_bytes = 0;     // bytes sent in answer to READ
  std::uint64_t read_failures = 0;  // READs that ended in an error
  double read_wait_seconds = 0;     // from the arrival of each READ to its answer, summed up: readers stood still

  std::uint64_t ram_bytes = 0;     // what was asked for
  std::uint64_t budget_bytes = 0;  // the same, or less under memory pressure
  std::uint64_t held_bytes = 0;    // pushed and not evicted
  std::uint64_t held_samples = 0;
  std::uint64_t read_in_bytes = 0;  // not pushed: files that READs brought in, each counted whole
  // Where the kernel drops pushed pages: how much of the budget is the daemon's own memory, and what lies there.
  std::uint64_t retained_budget_bytes = 0;
  std::uint64_t retained_bytes = 0;
  std::uint64_t retained_samples = 0;
  std::uint64_t pushed_samples = 0;
  std::uint64_t pushed_bytes = 0;
  std::uint64_t evicted_samples = 0;
  std::uint64_t push_failures = 0;  // samples that could not be read or stored
  std::uint64_t lost_samples = 0;   // pushed, then dropped by the kernel on its own

  std::uint64_t opens = 0;      // opens of samples seen
  std::uint64_t hits = 0;       // samples that lay in the page cache when they were opened
  std::uint64_t late = 0;       // opened while their push was under way
  std::uint64_t strays = 0;     // opened where the order did not expect it
  std::uint64_t overflows = 0;  // times that opens went unseen because the inotify queue was full
  std::uint64_t epoch = 0;      // where the reader is
  std::uint64_t position = 0;
  std::uint64_t ahead_samples = 0;      // pushed or under way in front of the reader
  std::string order_found_by;           // how a learned order was found; empty: given, or unknown
  double order_confidence_bits = 0;     // log2 of how much better than chance the opens fit a learned order
  std::uint64_t order_opens = 0;        // of its epoch, that a learned order was found by
  double order_search_cpu_seconds = 0;  // of all searches for an order
  std::string order;                    // spec in use; empty: unknown
  bool learns_order = false;            // it is looked for in the opens while it is unknown and would be of use

  bool listed = false;  // every directory is watched and its files are known to the kernel
  bool overlay = false;
  std::uint64_t takeovers = 0;         // times that a process died and another took over
  std::vector<std::string> fallbacks;  // one line each: what could not be had, and why
};

struct PushProgress {
  std::uint64_t held_bytes = 0;
  std::uint64_t target_bytes = 0;  // the budget, or the data set where that is less
  std::uint64_t held_samples = 0;
  std::uint64_t target_samples = 0;  // an estimate until the end where the budget is less than the data set
};

class Mount {
 public:
  // Returns when the mount is usable. Errors: as open_channel(); kUnsupported (overlay required and not to be had).
  [[nodiscard]] static Result<std::unique_ptr<Mount>> start(cache::Store& store, MountOptions options);
  // On a channel made before: by a supervisor that outlives this process (fuse/supervisor.h). The channel outlives the
  // Mount.
  [[nodiscard]] static Result<std::unique_ptr<Mount>> start(cache::Store& store, MountOptions options,
                                                            Channel& channel);
  ~Mount();  // stop()
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // Unmounts, lazily where readers are active, and joins all threads: within a second, whatever readers do. Idempotent.
  void stop();
  // Blocks until the mount has ended: by stop() or from outside.
  void wait();

  // After the store was told: readers see these files as they are now. What is open keeps what it has read.
  void on_changed(const cache::CatalogChanges& changes);

  [[nodiscard]] MountStats stats() const;
  // Where to push along from now on. Null: unknown.
  void set_order(std::shared_ptr<const cache::Order> order, std::uint64_t epoch, std::uint64_t position = 0);
  // What may lie in the page cache from now on; what no longer fits goes at once.
  void set_ram_bytes(std::uint64_t bytes);
  // Blocks until no more can be pushed; `on_progress` runs about ten times a second on the calling thread and may
  // return false to end the wait (pushing goes on). Errors: kCancelled (the mount ended), kInvalidArgument (ram_bytes
  // is 0).
  [[nodiscard]] Status push_until_full(const std::function<bool(const PushProgress&)>& on_progress);

 private:
  struct Impl;
  explicit Mount(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Answers the kernel's requests from the store and does nothing else, until the connection ends or the process is
// killed: in place of a worker that cannot be replaced yet (fuse/supervisor.h). Errors: kStale (the catalog is not the
// one that the mount was made with), kUnsupported, kSystem.
[[nodiscard]] Status stand_in(cache::Store& store, Channel& channel);

}  // namespace headrace::fuse
