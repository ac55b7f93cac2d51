// SPDX-License-Identifier: Apache-2.0
// The data set as a read-only mount whose files lie in the kernel's page cache before they are opened.
//
//   auto store = cache::Store::open({.source = "/data/imagenet", .source_fd = fd});  // fd: opened before mounting
//   auto mount = Mount::start(**store, {.mountpoint = "/mnt/imagenet", .ram_bytes = 8ULL << 30, .orders = orders});
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
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/order_candidates.h"
#include "headrace/cache/record_set.h"
#include "headrace/cache/revalidate.h"
#include "headrace/cache/store.h"
#include "headrace/fuse/channel.h"
#include "headrace/fuse/mount_stats.h"
#include "headrace/io/result.h"

namespace headrace::fuse {

using io::Result;
using io::Status;

// An overlayfs over the mount answers the ioctl that Python before 3.14 sends on each open() in the kernel.
enum class OverlayMode : std::uint8_t {
  kOff,
  kIfPossible,  // without it when it cannot be had (no root, no overlayfs); MountStats::fallbacks says so
  kRequired,    // an error when it cannot be had
};

struct MountOptions {
  std::filesystem::path mountpoint;      // an empty directory, or the source itself
  std::string source_name = "headrace";  // what mount(8) shows as the source
  std::uint64_t ram_bytes = 0;  // what may lie in the page cache by pushing, the mount's RAM tier; 0: nothing is pushed
  std::uint64_t source_rate = 0;  // bytes a second that may be read ahead from the source; 0: as many as it gives
  cache::OrderCandidates orders;  // while none is known, samples are pushed in the order of the catalog
  // The records of packs. `orders` are over these, and they are what is pushed, once an order is known. The reader is
  // followed by its READs, since nobody sees it open a record. Null: samples are files.
  std::shared_ptr<const cache::RecordSet> records;
  // Where is kept what programs read of large files when they open them, from mount to mount; empty: nowhere.
  std::filesystem::path opening_file;
  std::vector<std::string> fallbacks;  // what the caller could not do as asked: added to MountStats::fallbacks
  bool allow_other = false;            // other users may read, as the files' permissions allow
  bool over_source = false;            // the mount point has content that the mount hides: the source itself
  OverlayMode overlay = OverlayMode::kOff;
  // Where what is written below the mount point goes: the upper layer of an overlay, which is required then. Empty: the
  // mount is read-only.
  std::filesystem::path scratch;
  // What other mounts of this machine have in the page cache, asked when memory is short; empty: there are none.
  std::function<std::uint64_t()> held_by_others = {};
  // Threads that answer requests. 0: one per core, 2 to 8, and one more: all but one may wait for a local disk.
  unsigned session_threads = 0;
  // Threads that push. 0: one per two cores, 2 to 8; each pushes about 2 GB/s.
  unsigned push_threads = 0;
};

class Mount {
 public:
  // Returns when the mount is usable. Errors: as open_channel(); kUnsupported (overlay required and not to be had),
  // kBusy (another mount has the scratch folder).
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

  // The source has other names than the catalog: the mount goes on with this one. Names keep their inodes, so that
  // whoever has a file open goes on. Ends the process where that succeeds, and the supervisor starts one that takes
  // over; so it is for a mount on the channel of a supervisor. Errors: kUnsupported (there is none), kSystem;
  // then all stays as it was.
  [[nodiscard]] Status renew(const cache::Catalog& catalog, const RenewedNames& renewed);
  // This process is the first one after that: it goes on with the catalog that was given.
  [[nodiscard]] bool has_renewed() const;
  // Returns when the kernel has forgotten the old bytes of all files that the store knows to have changed; after some
  // seconds, with a warning, where reads keep it from doing so.
  void wait_until_forgotten();

  [[nodiscard]] MountStats stats() const;
  // The samples are records of packs, whose order is the one that the mount began with, or is found in the READs.
  [[nodiscard]] bool reads_records() const;
  // Somebody sets the order, or a loader tells it: it is pushed along from now on. Null: it is unknown. The order that
  // is followed already goes on with this epoch. Where the opens contradict it, it is given up, and the order is looked
  // for if the options say so. Not for records.
  void set_order(std::shared_ptr<const cache::Order> order, std::uint64_t epoch);
  // The order is unknown from now on, whoever gave it, and is looked for in the opens. Errors: kUnsupported (a mount
  // that looks for none).
  [[nodiscard]] Status learn_order();
  // The error that learn_order() would give, if any.
  [[nodiscard]] Status check_learns() const;
  // What was opened, in its sequence, from the open of that number on; the last 65 536 opens are kept. Equal opens that
  // follow each other are one. A mount of records sees none.
  struct Opens {
    std::uint64_t first = 0;  // the number of the first one here
    std::vector<cache::SampleIndex> samples;
  };
  [[nodiscard]] Opens opens(std::uint64_t first) const;
  // What may lie in the page cache from now on; what no longer fits goes at once.
  void set_ram_bytes(std::uint64_t bytes);
  // As MountOptions::source_rate, from now on.
  void set_source_rate(std::uint64_t bytes_per_second);
  // Holds these samples whatever is read, until they are evicted: all of them, or none where they do not fit. A process
  // that takes over goes on with them. Errors: as Pusher::pin().
  [[nodiscard]] Result<PinOutcome> pin(std::span<const cache::SampleIndex> samples);
  // Gives up what memory, the page cache and disk tiers hold of these samples, and pins them no more. What the order
  // reads next of them comes again, from the source. Errors: kUnsupported (a mount of records).
  [[nodiscard]] Status evict(std::span<const cache::SampleIndex> samples);
  // At most `count` of those from `first` on.
  [[nodiscard]] std::vector<cache::SampleIndex> pinned(cache::SampleIndex first, std::size_t count) const;
  // Without an order what was evicted or has changed is brought back, too. Blocks until no more can be pushed.
  // `on_progress` runs about ten times a second on the calling thread and may return false to end the wait (pushing
  // goes on). Errors: kCancelled (the mount ended), kInvalidArgument (ram_bytes is 0).
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
