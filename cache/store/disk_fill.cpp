// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/disk_fill.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "headrace/cache/source/source.h"
#include "headrace/cache/store/confirm.h"
#include "headrace/cache/store/fetch.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

// Ownership: its own; deletes itself once done.
class DiskFill {
 public:
  DiskFill(StoreParts& store, EntryId entry, const Identity& identity, unsigned attempts_left,
           std::function<void(Status)> done)
      : store_(store),
        entry_(entry),
        identity_(identity),
        attempts_left_(attempts_left),
        path_(store.catalog.path(entry)),
        done_(std::move(done)) {}
  // Deals with the next chunk that no tier holds; any thread, one at a time.
  void run();

 private:
  [[nodiscard]] DiskTier* tier_for(std::uint64_t payload_bytes) const;
  void on_read(Result<View> view);
  void end_held();
  void begin_anew();
  void end(Status status);

  StoreParts& store_;
  const EntryId entry_;
  const Identity identity_;
  const unsigned attempts_left_;  // after this one
  const std::string path_;
  const std::function<void(Status)> done_;
  std::uint32_t chunk_ = 0;
  RecordId record_;
};

void DiskFill::run() {
  if (identity_.size_bytes == 0) return end_held();
  for (; chunk_ < chunk_count(identity_.size_bytes); ++chunk_) {
    record_ = {hash_name(path_, chunk_), chunk_, identity_};
    if (!store_.held_on_disk(record_)) break;
  }
  if (chunk_ == chunk_count(identity_.size_bytes)) return end_held();
  if (tier_for(chunk_range(identity_.size_bytes, chunk_).length) == nullptr) {
    return end(io::make_error(ErrorCode::kNoSpace, "warm " + path_ + ": no disk tier takes it"));
  }
  read_chunk(store_,
             {.key = {entry_, chunk_},
              .is_cut = is_chunked(identity_.size_bytes),
              .hint = ReadHint::kAhead,
              .for_disk_fill = true},
             [this](Result<View> view) { on_read(std::move(view)); });
}

// All is held of the version that is known. It has to be the one that the source has.
void DiskFill::end_held() {
  if (store_.identities.is_confirmed(entry_)) return end({});
  confirm(store_, entry_, identity_, false, [this](Status status) {
    if (status || !is_other_version(status.error()) || !store_.look_at(entry_, identity_))
      return end(std::move(status));
    begin_anew();
  });
}

void DiskFill::on_read(Result<View> view) {
  if (!view && is_other_version(view.error())) return begin_anew();
  if (!view) return end(io::forward_error(std::move(view)));
  if (store_.closing.load()) return end(io::make_error(ErrorCode::kCancelled, "warm " + path_));
  Holding& holding = *Holding::of(*view);
  if (holding.identity != identity_) return begin_anew();  // a record must not name bytes that it does not have
  DiskTier* tier = tier_for(holding.size);
  if (tier == nullptr || store_.held_on_disk(record_)) return run();
  if (!store_.ram.pin_for_write(holding)) {
    view->reset();
    return store_.timers.after(kLookAgain, [this] { run(); });
  }
  store_.write(*tier, holding, record_, [this, tier, bytes = holding.size](Status written) {
    // A tier finds out that it is full by a write that fails. The next one may have room.
    const bool is_full = !written && written.error().code == ErrorCode::kNoSpace && !tier->admits(bytes);
    if (!written && !is_full) return end(std::move(written));
    run();
  });
}

// With the file as it is known to be by now.
void DiskFill::begin_anew() {
  const Result<Identity> now = store_.identities.of_file(entry_);
  if (!now || *now == identity_ || attempts_left_ == 0 || store_.closing.load()) {
    return end(io::make_error(ErrorCode::kStale, "warm " + path_ + ": changes while it is read"));
  }
  (new DiskFill(store_, entry_, *now, attempts_left_ - 1, done_))->run();
  delete this;
}

DiskTier* DiskFill::tier_for(std::uint64_t payload_bytes) const {
  for (std::size_t i = 0; i < store_.tiers.size(); ++i) {
    if (store_.tiers[i]->admits(payload_bytes) && store_.follower->wants(i, entry_)) return store_.tiers[i].get();
  }
  return nullptr;
}

void DiskFill::end(Status status) {
  done_(std::move(status));
  delete this;
}

}  // namespace

void fill_disk_tiers(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done) {
  (new DiskFill(store, entry, identity, kAttemptsAfterChange, std::move(done)))->run();
}

}  // namespace headrace::cache
