// SPDX-License-Identifier: Apache-2.0
// Owns what is on its way, from its start until it ends, and finds what is on its way of a file.
//
//   store.mover.add(std::make_unique<PartRead>(...)).start();
//   const auto self = store.mover.take(*this);  // the step that ends it: it goes with the scope
//
// Nothing here bounds how many there are: what needs memory waits for its part of the RAM budget (memory_queue.h).
//
// Thread-safety: every function from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

// A read or a fill. It is found by the file that it is of.
class UnderWay {
 public:
  explicit UnderWay(EntryId entry) : file_(entry) {}
  virtual ~UnderWay() = default;
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  // Notes that somebody waits for it by now. A lock of the mover is held, and it has not begun to end.
  [[nodiscard]] virtual RamTier::Wanted want() { return {}; }

 private:
  friend class Mover;
  const EntryId file_;
  std::unique_ptr<UnderWay> next_;
  std::unique_ptr<UnderWay>* owner_ = nullptr;  // the pointer that owns this one
};

class Mover {
 public:
  template <typename Kind>
  Kind& add(std::unique_ptr<Kind> begun) {
    Kind& added = *begun;
    insert(std::move(begun));
    return added;
  }
  // A read or fill that ends takes itself out, before anything that its want() uses goes.
  [[nodiscard]] std::unique_ptr<UnderWay> take(UnderWay& ending);
  // Somebody waits for what is on its way of the file. Returns what is to be hurried, in the order in which it began.
  [[nodiscard]] std::vector<RamTier::Wanted> want(EntryId entry);

 private:
  struct Bucket {
    io::Mutex mutex;
    std::unique_ptr<UnderWay> first HEADRACE_GUARDED_BY(mutex);
  };

  void insert(std::unique_ptr<UnderWay> begun);
  [[nodiscard]] Bucket& bucket_of(EntryId entry) { return buckets_[entry % buckets_.size()]; }

  std::array<Bucket, 64> buckets_;  // 64: of a few hundred that are under way, each has some
};

}  // namespace headrace::cache
