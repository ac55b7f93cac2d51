// SPDX-License-Identifier: Apache-2.0
// Tells a store which files of its source have changed. A thread of its own compares the catalog with the tree: at
// once, every so often, and on request.
//
//   Refresher refresher(*store, {.every = 1h});   // Store::set_change_listener() tells what it finds
//   refresher.request();   // a comparison that begins from now on
//
// Thread-safety: every function from any thread. The owner's destruction ends a comparison that is under way, within
// milliseconds (as long as one system call takes), and joins the thread. Ownership: the store outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "headrace/cache/revalidate.h"
#include "headrace/cache/store.h"

namespace headrace::cache {

struct RefresherOptions {
  std::chrono::seconds every{0};  // 0: at the start, if at all, then only on request
  bool at_start = true;           // false: for a catalog that was listed just now
  // A comparison that failed is tried again after this, twice this, four times ..., up to 32 times this.
  std::chrono::milliseconds again_after{30'000};
  // Few, because a comparison runs beside the training job.
  unsigned threads = 2;
  // Called when the store knows all that a comparison found; the comparison ends after that. On the refresher's thread.
  // May be empty.
  std::function<void()> on_told = {};
  // A comparison that was requested found other names than the catalog: `changes.next` has them. Called last, on the
  // refresher's thread. An error is told by state(); after kBusy all is compared again, as after a failure.
  std::function<Status(const CatalogChanges& changes)> on_other_names = {};
  CatalogOptions catalog = {};  // of changes.next
};

class Refresher {
 public:
  Refresher(Store& store, RefresherOptions options);
  ~Refresher();
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;

  void request();

  struct State {
    bool running = false;       // a comparison is under way or asked for
    std::uint64_t rounds = 0;   // comparisons that ended
    std::uint64_t changed = 0;  // files that differ from the catalog, as the last comparison found
    std::uint64_t vanished = 0;
    std::uint64_t appeared = 0;  // names that the catalog lacks
    std::string why_not_shown;   // what on_other_names() said; empty: names are as catalogued, or nobody requested it
    std::string failure;         // of the last one; empty: none
    std::uint64_t failures = 0;  // that followed each other up to now; it is tried again by itself
  };
  [[nodiscard]] State state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::cache
