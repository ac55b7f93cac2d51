// SPDX-License-Identifier: Apache-2.0
// Storage that does not answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/cache/store.h"
#include "headrace/io/mutex.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse::test {

using cache::EntryId;
using cache::ReadCallback;
using cache::ReadHint;
using io::Result;
using io::Status;

// Answers reads ahead at once, and reads that somebody waits for only when it is told to.
class HangingStore final : public cache::Store {
 public:
  explicit HangingStore(cache::Store& inner) : inner_(inner) {}
  ~HangingStore() override { let_go(); }

  void read_async(EntryId entry, ReadCallback done, ReadHint hint) override {
    if (hint != ReadHint::kNow && hint != ReadHint::kOnce) return inner_.read_async(entry, std::move(done), hint);
    io::MutexLock lock(mutex_);
    waiting_.emplace_back(entry, std::move(done));
    arrived_.notify_all();
  }
  void wait_for_a_read() {
    io::MutexLock lock(mutex_);
    while (waiting_.empty()) arrived_.wait(lock);
  }
  void let_go() {
    std::vector<std::pair<EntryId, ReadCallback>> waiting;
    {
      io::MutexLock lock(mutex_);
      waiting.swap(waiting_);
    }
    for (auto& [entry, done] : waiting) done(inner_.read(entry));
  }

  const cache::Catalog& catalog() const override { return inner_.catalog(); }
  std::shared_ptr<const io::UniqueFd> source_directory() const override { return inner_.source_directory(); }
  Result<cache::View> read(EntryId entry) override { return inner_.read(entry); }
  void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done) override {
    inner_.read_range_async(entry, offset, length, std::move(done));
  }
  void prefetch(EntryId entry, bool keep, std::function<void(Status)> done) override {
    inner_.prefetch(entry, keep, std::move(done));
  }
  void drop(EntryId entry) override { inner_.drop(entry); }
  void unkeep(EntryId entry) override { inner_.unkeep(entry); }
  void set_ram_bytes(std::uint64_t bytes) override { inner_.set_ram_bytes(bytes); }
  void set_identity(EntryId entry, const cache::Identity& identity) override { inner_.set_identity(entry, identity); }
  void set_vanished(EntryId entry) override { inner_.set_vanished(entry); }
  void warm(EntryId entry, std::function<void(Status)> done) override { inner_.warm(entry, std::move(done)); }
  bool is_on_disk(EntryId entry) const override { return inner_.is_on_disk(entry); }
  std::unique_ptr<cache::Following> follow(const cache::Order& order, const cache::FollowOptions& options) override {
    return inner_.follow(order, options);
  }
  Status flush() override { return inner_.flush(); }
  cache::StoreStats stats() const override { return inner_.stats(); }

 private:
  cache::Store& inner_;
  io::Mutex mutex_;
  io::CondVar arrived_;
  std::vector<std::pair<EntryId, ReadCallback>> waiting_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse::test
