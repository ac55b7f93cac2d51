// SPDX-License-Identifier: Apache-2.0
// Storage that does not answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "headrace/cache/store.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse::test {

using cache::EntryId;
using cache::ReadCallback;
using cache::ReadHint;
using io::Result;
using io::Status;

// Answers reads ahead at once, and reads that somebody waits for only when it is told to. Callers that may wait do so
// once hold_callers() was called. After hold_look_aheads() reads ahead of callers that may wait are not answered
// either. After pin_reads_ahead() their answers are held back, and what was read stays in memory.
class HangingStore : public cache::Store {
 public:
  explicit HangingStore(cache::Store& inner) : inner_(inner) {}
  ~HangingStore() override { let_go(); }

  void read_async(EntryId entry, ReadCallback done, ReadHint hint) override {
    const bool for_now = hint == ReadHint::kNow || hint == ReadHint::kNowHere;
    io::MutexLock lock(mutex_);
    if (hint == ReadHint::kAhead && pins_reads_ahead_) {
      lock.unlock();
      return inner_.read_async(entry, pinned(std::move(done)), hint);
    }
    if (!for_now && !(hint == ReadHint::kAheadHere && holds_look_aheads_)) {
      lock.unlock();
      return inner_.read_async(entry, std::move(done), hint);
    }
    if (lets_go_) {
      lock.unlock();
      return done(inner_.read(entry));
    }
    waiting_.emplace_back(entry, std::move(done));
    changed_.notify_all();
    if (hint != ReadHint::kNowHere || !holds_callers_) return;
    ++held_callers_;
    while (holds_callers_) changed_.wait(lock);
  }
  void wait_for_reads(std::size_t count) {
    io::MutexLock lock(mutex_);
    while (waiting_.size() < count) changed_.wait(lock);
  }
  void wait_for_a_read() { wait_for_reads(1); }
  // Whether the source says who has an ACL.
  void tell_acls(bool tells) { tells_acls_ = tells; }
  // As at first, after let_go().
  void hold_reads() {
    io::MutexLock lock(mutex_);
    lets_go_ = false;
  }
  void hold_callers() {
    io::MutexLock lock(mutex_);
    holds_callers_ = true;
  }
  void hold_look_aheads() {
    io::MutexLock lock(mutex_);
    lets_go_ = false;
    holds_look_aheads_ = true;
  }
  void pin_reads_ahead() {
    io::MutexLock lock(mutex_);
    lets_go_ = false;
    pins_reads_ahead_ = true;
  }
  std::size_t pinned_reads() const {
    io::MutexLock lock(mutex_);
    return pinned_.size();
  }
  std::size_t held_reads() const {
    io::MutexLock lock(mutex_);
    return waiting_.size();
  }
  unsigned held_callers() const {
    io::MutexLock lock(mutex_);
    return held_callers_;
  }
  // Answers what is held back, and from now on every read at once.
  void let_go() {
    std::vector<std::pair<EntryId, ReadCallback>> waiting;
    std::vector<std::pair<ReadCallback, Result<cache::View>>> pinned;
    {
      io::MutexLock lock(mutex_);
      waiting.swap(waiting_);
      pinned.swap(pinned_);
      pins_reads_ahead_ = false;
      holds_callers_ = false;
      holds_look_aheads_ = false;
      lets_go_ = true;
      changed_.notify_all();
    }
    for (auto& [done, view] : pinned) done(std::move(view));
    for (auto& [entry, done] : waiting) done(inner_.read(entry));
  }

  const cache::Catalog& catalog() const override { return inner_.catalog(); }
  Result<cache::Identity> identity(EntryId entry) const override { return inner_.identity(entry); }
  std::optional<bool> has_acl(EntryId entry) const override {
    return tells_acls_ ? inner_.has_acl(entry) : std::nullopt;
  }
  Result<cache::CatalogChanges> find_changes(const cache::RevalidateOptions& options) const override {
    return inner_.find_changes(options);
  }
  Result<cache::View> read(EntryId entry) override { return inner_.read(entry); }
  void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done,
                        ReadHint hint) override {
    {
      io::MutexLock lock(mutex_);
      if ((hint == ReadHint::kAheadAlone || hint == ReadHint::kAheadUnasked) && pins_reads_ahead_)
        done = pinned(std::move(done));
    }
    inner_.read_range_async(entry, offset, length, std::move(done), hint);
  }
  void hurry(EntryId entry) override { inner_.hurry(entry); }
  void drop(EntryId entry) override { inner_.drop(entry); }
  void evict(EntryId entry) override { inner_.evict(entry); }
  void release(EntryId entry) override { inner_.release(entry); }
  void set_ram_bytes(std::uint64_t bytes) override { inner_.set_ram_bytes(bytes); }
  void set_identity(EntryId entry, const cache::Identity& identity) override { inner_.set_identity(entry, identity); }
  void set_vanished(EntryId entry) override { inner_.set_vanished(entry); }
  cache::AttributeClass attributes(EntryId entry) const override { return inner_.attributes(entry); }
  void set_attributes(EntryId entry, const cache::AttributeClass& attributes) override {
    inner_.set_attributes(entry, attributes);
  }
  void tell_attributes(cache::EntryId entry) override { inner_.tell_attributes(entry); }
  Status look_at(EntryId entry) override { return inner_.look_at(entry); }
  void set_compared() override { inner_.set_compared(); }
  cache::CatalogChanges changes() const override { return inner_.changes(); }
  void set_change_listener(ChangeListener listener) override { inner_.set_change_listener(std::move(listener)); }
  void warm(EntryId entry, std::function<void(Status)> done) override { inner_.warm(entry, std::move(done)); }
  bool is_on_disk(EntryId entry) const override { return inner_.is_on_disk(entry); }
  bool is_range_on_disk(EntryId entry, std::uint64_t offset, std::uint64_t length) const override {
    return inner_.is_range_on_disk(entry, offset, length);
  }
  std::unique_ptr<cache::Following> follow(const cache::Order& order, const cache::FollowOptions& options) override {
    return inner_.follow(order, options);
  }
  void share(EntryId entry, std::function<void(Status)> done) override { inner_.share(entry, std::move(done)); }
  [[nodiscard]] Status set_peers(const std::vector<std::string>& peers) override { return inner_.set_peers(peers); }
  Status flush() override { return inner_.flush(); }
  cache::StoreStats stats() const override { return inner_.stats(); }

 private:
  ReadCallback pinned(ReadCallback done) {
    return [this, done = std::move(done)](Result<cache::View> view) {
      {
        io::MutexLock lock(mutex_);
        if (pins_reads_ahead_) {
          pinned_.emplace_back(done, std::move(view));
          return;
        }
      }
      done(std::move(view));
    };
  }

  cache::Store& inner_;
  mutable io::Mutex mutex_;
  io::CondVar changed_;
  bool lets_go_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool holds_callers_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool pins_reads_ahead_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> tells_acls_ = true;
  std::vector<std::pair<ReadCallback, Result<cache::View>>> pinned_ HEADRACE_GUARDED_BY(mutex_);
  bool holds_look_aheads_ HEADRACE_GUARDED_BY(mutex_) = false;
  unsigned held_callers_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<EntryId, ReadCallback>> waiting_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse::test
