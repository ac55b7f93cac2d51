// SPDX-License-Identifier: Apache-2.0
// How what was fetched gets into the kernel's page cache, and to READs that wait for it. Nothing of a file that has
// changed since gets there.
//
//   Delivery delivery(parts, kernel, stale, answers);
//   delivery.show(fetch);                      // a piece of it has arrived
//   const int failure = delivery.store(fetch); // it has its room
//
// Thread-safety: every function from any thread. store() may block as KernelPages does; show() does not.
// Ownership: all of what it is given outlives it.
#pragma once

#include "headrace/fuse/push/fetch.h"
#include "headrace/fuse/push/kernel_pages.h"
#include "headrace/fuse/push/push_parts.h"
#include "headrace/fuse/push/record_answers.h"
#include "headrace/fuse/push/stale_files.h"

namespace headrace::fuse {

class Delivery {
 public:
  // `answers`: null where samples are files.
  Delivery(const PushParts& parts, KernelPages& kernel, const StaleFiles& stale, RecordAnswers* answers)
      : parts_(parts), kernel_(kernel), stale_(stale), answers_(answers) {}

  // A READ that comes for the record waits for it. Only once nothing keeps it from being read: such a READ locks pages,
  // and the thread that begins the fetches may wait for one of these.
  void expect(const Fetch& fetch) const;
  // To READs that wait for it, and to those that come before it is pushed.
  void show(const Fetch& fetch) const;
  // The piece was read, all of it, and is of the version that the fetch is of.
  [[nodiscard]] bool is_read(const Fetch& fetch) const;
  [[nodiscard]] bool has_changed(const Fetch& fetch) const { return stale_.has_changed(fetch.entry, fetch.changes); }
  // Pushes the piece. 0, or an errno: ESTALE for another version by now.
  [[nodiscard]] int store(const Fetch& fetch) const;

 private:
  void leave_beacon(const Fetch& fetch) const;

  const PushParts& parts_;
  KernelPages& kernel_;
  const StaleFiles& stale_;
  RecordAnswers* const answers_;
};

}  // namespace headrace::fuse
