// SPDX-License-Identifier: Apache-2.0
// Decides what to fetch next and what to let go, from the order and from where the reader is.
// Pure: no I/O, no threads, no clock; the Reader, the mount's pusher and the simulator drive the same object.
//
//   ReadAhead plan(order, sizes, {.budget_bytes = 8 << 30, .window_bytes = 256 << 20});
//   plan.on_read(sample);                                           // the reader took this one
//   for (SampleIndex gone : plan.take_releases()) drop(gone);       // first: they make the room
//   while (auto sample = plan.next_fetch()) start_fetch(*sample);   // then on_fetched(*sample, true)
//
// Placement: the budget holds a resident part (each sample is read once per epoch, so that no policy beats hit ratio =
// held fraction: MinIO, VLDB 2021) and a window of fetched samples ahead of the reader, let go once read. What came
// first is resident, and makes way for others only where that gains something: a large sample for smaller ones, of
// which more fit; where epochs leave samples out, one that does not come up in this epoch or the next. Fetching follows
// the order across the epoch boundary and never takes the place of a sample needed sooner ("do no harm", Cao et al.,
// SIGMETRICS 1995).
//
// Memory: 1.25 bytes per sample, two epochs of the order (4 bytes per position each), and the window. Each call is O(1)
// on average; now and then one draws an epoch, or looks for a reader that went elsewhere (a pass over the epoch).
// Thread-safety: none; one owner. Ownership: the order and the sizes outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/sample_sizes.h"

namespace headrace::cache {

struct ReadAheadOptions {
  std::uint64_t budget_bytes = 0;  // resident part + window
  // At most this much ahead of the reader that is not resident; 0: budget / 32, at most 1 GiB, but 64 samples, or a
  // batch of 32 at most per worker, as far as budget / 4 holds them; of samples of 1 MiB and more 4, or one per worker.
  // Not needed, and not used, where the budget holds all samples.
  std::uint64_t window_bytes = 0;
  std::uint64_t first_epoch = 0;
  std::uint64_t epoch_count = UINT64_MAX;  // fetches nothing for epochs after these
  bool in_order = false;  // the reader takes the positions one by one, whatever the order says about its workers
};

class ReadAhead {
 public:
  // `sizes[i]`: bytes that sample i takes of the budget. Both pointers outlive the object.
  ReadAhead(const Order& order, const SampleSizes& sizes, ReadAheadOptions options);
  ~ReadAhead();

  // The next sample to fetch, counted against the window from now on; nullopt: nothing to do until on_read/on_fetched.
  [[nodiscard]] std::optional<SampleIndex> next_fetch();
  // A fetch ended. Failed: its place is free again and it is not tried a second time before the reader passes it.
  // False: nothing has changed for next_fetch().
  bool on_fetched(SampleIndex sample, bool success);
  // The reader took the sample (hit or miss). Out-of-order within the loader's window is normal; a read outside of it
  // is a stray unless several in a row fit another position (resume in mid-epoch) or the beginning of another epoch (a
  // job that starts again, one that repeats its epoch): then the position moves there.
  // False: a stray.
  bool on_read(SampleIndex sample);
  // Whoever holds the data has the sample from before, or it came for another plan. False: it has no place in this one.
  [[nodiscard]] bool adopt(SampleIndex sample);
  // Whoever holds the data lost it (the kernel reclaimed pages, an eviction): it may be fetched again.
  void on_lost(SampleIndex sample);
  // Samples that no longer have a place; the caller drops them before it starts the next fetch.
  [[nodiscard]] std::vector<SampleIndex> take_releases();
  // Moves the reader; held samples stay where they are still useful.
  void seek(std::uint64_t epoch, std::uint64_t position);
  void set_budget(std::uint64_t budget_bytes, std::uint64_t window_bytes);

  struct State {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;    // lowest position of the epoch not read yet
    std::uint64_t ahead = 0;       // samples held or in flight in front of the reader
    std::uint64_t held_bytes = 0;  // resident + window
    std::uint64_t resident_bytes = 0;
    std::uint64_t reads = 0;
    std::uint64_t hits = 0;    // reads that found their sample fetched
    std::uint64_t late = 0;    // reads that found it in flight
    std::uint64_t strays = 0;  // reads outside the window
  };
  [[nodiscard]] State state() const;
  [[nodiscard]] bool holds(SampleIndex sample) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::cache
