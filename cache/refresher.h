// SPDX-License-Identifier: Apache-2.0
// Keeps a store honest about its source: compares catalog and tree on a thread of its own, at once, every so often and
// on request, and tells the store which files are others now.
//
//   Refresher refresher(*store, {.every = 1h, .on_changed = [&](const CatalogChanges& c) { forget(c); }});
//   refresher.request();   // a comparison that begins from now on
//
// Thread-safety: every function from any thread; destruction by the owner ends a comparison under way within
// milliseconds (as long as one system call takes) and joins. Ownership: the store outlives it.
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
  std::chrono::seconds every{0};  // 0: once at the start, then on request only
  // Gentle: a comparison runs beside the training job.
  unsigned threads = 2;
  // What is news since the last comparison, after the store was told. Runs on the refresher's thread; may be empty.
  std::function<void(const CatalogChanges&)> on_changed = {};
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
    std::uint64_t changed = 0;  // files that differ from the catalog, as the last one found
    std::uint64_t vanished = 0;
    std::uint64_t appeared = 0;  // names that a new mount will show
    std::string failure;         // of the last one; empty: none
  };
  [[nodiscard]] State state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::cache
