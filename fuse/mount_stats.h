// SPDX-License-Identifier: Apache-2.0
// What a mount tells about itself: Mount::stats() and Mount::push_until_full() (fuse/mount.h) fill these in.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/fuse/channel.h"

namespace headrace::fuse {

struct RequestCount {
  std::string_view name;  // "LOOKUP", "READ", ...
  std::uint64_t count = 0;
};

struct WaitCount {
  std::optional<double> seconds_max;  // more than the bound before, and at most this; nullopt: longer than all bounds
  std::uint64_t count = 0;
};

struct FailureCount {
  std::string_view reason;  // "EIO", "ESTALE", ...
  std::uint64_t count = 0;
};

struct MountStats {
  std::vector<RequestCount> requests;  // kinds that arrived at least once
  std::uint64_t request_total = 0;
  std::uint64_t read_bytes = 0;                    // bytes sent in answer to READ
  std::uint64_t read_failures = 0;                 // READs that ended in an error
  std::vector<FailureCount> read_failure_reasons;  // of these
  double read_wait_seconds = 0;       // from the arrival of each READ to its answer, summed up: readers stood still
  std::vector<WaitCount> read_waits;  // how many READs waited how long

  std::uint64_t ram_bytes = 0;      // what may be pushed, or held as copies: as was asked for
  std::uint64_t budget_bytes = 0;   // the same, or less under memory pressure
  std::string shortage;             // why it is less; empty: it is not
  std::uint64_t source_rate = 0;    // MountOptions::source_rate
  std::uint64_t staging_bytes = 0;  // beside it, the store's: what is on its way may take so much
  std::uint64_t held_bytes = 0;     // pushed and not evicted
  std::uint64_t held_samples = 0;
  std::uint64_t read_in_bytes = 0;  // not pushed: files that READs brought in, each counted whole
  // Where the kernel drops pushed pages: how much of the budget is the daemon's own memory, and what lies there.
  std::uint64_t copies_budget_bytes = 0;
  std::uint64_t copies_bytes = 0;
  std::uint64_t copied_samples = 0;
  // Samples that were pinned: of the budget they may take so much, and are held for as long as they do not take more.
  std::uint64_t pinnable_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t pinned_samples = 0;
  std::uint64_t pinned_held_samples = 0;
  std::uint64_t pushed_samples = 0;
  std::uint64_t pushed_bytes = 0;
  std::uint64_t evicted_samples = 0;
  std::uint64_t push_failures = 0;  // samples that could not be read or stored
  std::uint64_t opening_reads = 0;  // READs of openings, answered with what was fetched ahead for them
  std::uint64_t lost_samples = 0;   // pushed, then dropped by the kernel on its own
  // Times that nothing was read ahead for a while, because that cost the source more than it saved; and how many opens
  // such a pause lasts yet (0: there is none).
  std::uint64_t read_ahead_pauses = 0;
  std::uint64_t read_ahead_paused_opens = 0;

  std::uint64_t opens = 0;                   // opens of samples seen
  std::optional<double> seconds_since_open;  // nullopt: none was seen
  std::uint64_t hits = 0;                    // samples that lay in the page cache when they were opened
  std::uint64_t late = 0;                    // opened while their push was under way
  std::uint64_t strays = 0;                  // opened where the order did not expect it
  std::uint64_t overflows = 0;               // times that opens went unseen because the inotify queue was full
  std::uint64_t epoch = 0;                   // where the reader is
  std::uint64_t position = 0;
  std::uint64_t ahead_samples = 0;       // pushed or under way in front of the reader
  std::string order_found_by;            // how a learned order was found; empty: given, or unknown
  double order_confidence_bits = 0;      // log2 of how much better than chance the opens fit a learned order
  std::uint64_t order_opens = 0;         // of its epoch, that a learned order was found by
  double order_search_cpu_seconds = 0;   // of all searches for an order
  std::uint64_t order_search_seeds = 0;  // that the search under way tests at most; 0: none is under way
  std::uint64_t order_search_seeds_tested = 0;
  double order_search_seeds_per_second = 0;
  std::uint64_t orders_given_up = 0;  // given or told orders that the opens contradicted
  std::string order_given_up;         // the last one of them
  std::string order_set;              // where an order is over several sets: the one that is read; `epoch` is its own
  std::string order;                  // spec in use; empty: unknown
  bool learns_order = false;          // it is looked for in the opens while it is unknown and would be of use

  bool listed = false;  // every directory is watched and its files are known to the kernel
  bool overlay = false;
  std::uint64_t takeovers = 0;         // times that a process died and another took over
  std::uint64_t renewals = 0;          // times that the mount went on with another catalog, because names were others
  RenewedNames renewed = {};           // by the last one
  std::vector<std::string> fallbacks;  // one line each: what could not be had, and why
};

struct PushProgress {
  std::uint64_t held_bytes = 0;
  std::uint64_t target_bytes = 0;  // the budget, or the data set where that is less
  std::uint64_t held_samples = 0;
  std::uint64_t target_samples = 0;  // an estimate until the end where the budget is less than the data set
  // Where the budget holds all, and no order says which are wanted: those that are not held.
  std::uint64_t missing_samples = 0;
};

// Whether samples were pinned: all of them, or none where they do not fit.
struct PinOutcome {
  bool is_pinned = false;
  std::uint64_t asked_bytes = 0;     // of those that were not pinned before
  std::uint64_t pinned_bytes = 0;    // before
  std::uint64_t pinnable_bytes = 0;  // in all
};

}  // namespace headrace::fuse
