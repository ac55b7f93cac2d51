// SPDX-License-Identifier: Apache-2.0
// Answers the kernel's requests: names and attributes from the catalog at once, content from the store when it comes.
//
// What the kernel may keep it keeps for good: the catalog never changes, and whoever learns that a file has changed
// tells the store and then the kernel. OPEN, OPENDIR and FLUSH are refused once, after which the kernel opens and
// closes without asking. Inode numbers follow from the catalog (inodes.h), so FORGET means nothing here, and a
// successor needs no table of inodes.
//
//   auto requests = std::make_shared<Requests>(store, inodes, false, on_read, lacks);
//   auto session = Session::open(channel, Requests::operations(), requests);
//
// Thread-safety: every function from any thread. Ownership: of the Session that calls it; the Store outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "headrace/cache/store.h"
#include "headrace/fuse/kernel/inodes.h"
#include "headrace/fuse/kernel/look_ahead.h"
#include "headrace/fuse/kernel/read_figures.h"
#include "headrace/io/mutex.h"

struct fuse_lowlevel_ops;
struct fuse_req;

namespace headrace::fuse {

class Session;

struct ReadRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool past_page_cache = false;  // O_DIRECT: says nothing about what the page cache holds
};

class Requests {
 public:
  static constexpr double kForeverSeconds = 1e9;  // the kernel takes what overflows its clock as its largest timeout

  // `on_read` hears of READs that the page cache could not serve. Called on session threads.
  // `lacks`: whether a file is a sample that is neither in the page cache nor on its way there. Such a file may be
  // fetched when its name is looked up. Called on session threads. Empty: nothing is.
  // `serves_others`: users other than the one who mounted may read.
  // `valid_seconds`: how long the kernel may keep names and attributes. One who hears of every change takes them back.
  Requests(cache::Store& store, std::shared_ptr<Inodes> inodes, bool serves_others,
           std::function<void(cache::EntryId, const ReadRange&)> on_read, std::function<bool(cache::EntryId)> lacks,
           double valid_seconds = kForeverSeconds);

  // Asked before the store, with what is to be given the bytes: true if it is or will be, once. No bytes mean that the
  // store is to be asked after all. Before the session starts.
  using Answer = std::function<void(std::span<const std::byte>)>;
  // `known`: the version of the file that the reader is shown.
  using AnswerRead = std::function<bool(std::uint64_t inode, const cache::Identity& known, const ReadRange& range,
                                        const Answer& answer)>;
  enum class Asked : std::uint8_t { kLargeFiles, kAllFiles };
  void set_answerer(AnswerRead answer_read, Asked about) {
    answer_read_ = std::move(answer_read);
    asked_about_ = about;
  }
  // Hears of each look-up of a name whose number is not the one that it had first, after the answer. Before the session
  // starts.
  void hear_of_other_numbers(std::function<void(std::uint64_t inode)> on_looked_up) {
    on_looked_up_ = std::move(on_looked_up);
  }
  void tell_looked_up(cache::EntryId entry, std::uint64_t inode) const {
    if (on_looked_up_ && inode != std::uint64_t{entry} + 1) on_looked_up_(inode);
  }
  // The kernel is to ask for what is read and for nothing around it. Before the session is made.
  void refuse_read_ahead() { reads_ahead_ = false; }
  [[nodiscard]] bool reads_ahead() const { return reads_ahead_; }

  // To be registered with a Session whose handler is a Requests.
  [[nodiscard]] static const fuse_lowlevel_ops& operations();

  [[nodiscard]] const cache::Catalog& catalog() const { return catalog_; }
  [[nodiscard]] const Inodes& inodes() const { return *inodes_; }
  [[nodiscard]] cache::EntryId entry_of(std::uint64_t inode) const { return inodes_->entry_of(inode); }
  void read(fuse_req* request, std::uint64_t inode, ReadRange range);
  // Whether a file that is looked up is probably read next, and not held. To be asked before the answer: the READ may
  // come at once.
  [[nodiscard]] bool expects_read(cache::EntryId entry);
  // Begins to fetch it. After the answer, so that the reader does not wait for this.
  void look_ahead(Session& session, cache::EntryId entry);
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] double valid_seconds() const { return valid_seconds_; }
  // As the store knows it to be now.
  [[nodiscard]] cache::Identity identity(cache::EntryId entry) const;
  struct Shown {
    cache::AttributeClass attributes;
    double valid_seconds = 0;  // how long the kernel may keep them
  };
  // Mode and owner; nothing for others where they see more than the source's ACL may let them.
  [[nodiscard]] Shown attributes(cache::EntryId entry) const;
  // The same of a folder, where an overlay lies over the mount. The overlay asks the mount as the user who made it,
  // whoever comes; so where others may not use the mount, the root above keeps them out.
  [[nodiscard]] cache::AttributeClass above_overlay(cache::EntryId folder) const;

  [[nodiscard]] std::uint64_t read_bytes() const { return read_bytes_.load(); }
  [[nodiscard]] const ReadFigures& read_figures() const { return read_figures_; }
  // Waits until no READ is under way, or for the deadline. False: the deadline passed.
  [[nodiscard]] bool drain(std::chrono::steady_clock::time_point deadline);

 private:
  void read_in_store(fuse_req* request, std::uint64_t inode, const cache::Identity& known, const ReadRange& range,
                     cache::ReadHint hint);
  // `whole`: the file that the bytes belong to, where all of it is at hand.
  void answer_bytes(fuse_req* request, std::uint64_t inode, std::span<const std::byte> bytes,
                    const std::optional<cache::View::WholeFile>& whole);
  void answer_read(fuse_req* request, std::uint64_t inode, std::uint64_t length, const io::Result<cache::View>& view);
  [[nodiscard]] bool may_show(std::uint64_t inode, const cache::Identity& now, std::span<const std::byte> bytes,
                              std::span<const std::byte> whole) const;
  void refuse_read(fuse_req* request, int error);
  void end_read(std::chrono::nanoseconds waited);

  cache::Store& store_;
  const std::shared_ptr<Inodes> inodes_;
  const bool serves_others_;
  const double valid_seconds_;
  const cache::Catalog& catalog_;
  const std::function<void(cache::EntryId, const ReadRange&)> on_read_;
  const std::function<bool(cache::EntryId)> lacks_;
  const std::uint64_t file_bytes_;  // of all files, for statfs
  AnswerRead answer_read_;          // changes before the threads start only, as the next three
  Asked asked_about_ = Asked::kAllFiles;
  std::function<void(std::uint64_t)> on_looked_up_;
  bool reads_ahead_ = true;
  std::atomic<std::uint64_t> read_bytes_ = 0;
  ReadFigures read_figures_;
  LookAhead look_ahead_;
  std::atomic<unsigned> looking_ahead_ = 0;  // fetches under way

  io::Mutex mutex_;
  io::CondVar idle_;
  std::uint64_t reads_in_flight_ HEADRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace headrace::fuse
