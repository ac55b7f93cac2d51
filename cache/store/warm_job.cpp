// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/warm_job.h"

#include <chrono>
#include <utility>

namespace headrace::cache {
namespace {

using io::ErrorCode;

// How soon to look again for a record that somebody else is writing just now; a write takes about as long.
constexpr std::chrono::milliseconds kLookAgain{5};

}  // namespace

WarmJob::WarmJob(StoreImpl& store, EntryId entry, const Identity& identity, std::function<void(Status)> done)
    : store_(store), entry_(entry), identity_(identity), path_(store.catalog_.path(entry)), done_(std::move(done)) {}

void WarmJob::run() {
  if (identity_.size_bytes == 0) return end({});
  for (; chunk_ < chunk_count(identity_.size_bytes); ++chunk_) {
    record_ = {hash_name(path_, chunk_), chunk_, identity_};
    if (!store_.is_held(record_)) break;
  }
  if (chunk_ == chunk_count(identity_.size_bytes)) return end({});
  if (tier_for(chunk_range(identity_.size_bytes, chunk_).length) == nullptr) {
    return end(io::make_error(ErrorCode::kNoSpace, "warm " + path_ + ": no disk tier takes it"));
  }
  store_.read_chunk({.key = {entry_, chunk_}, .hint = ReadHint::kAhead, .for_warm_job = true},
                    [this](Result<View> view) { on_read(std::move(view)); });
}

void WarmJob::on_read(Result<View> view) {
  if (!view) return end(io::forward_error(std::move(view)));
  if (store_.closing_.load()) return end(io::make_error(ErrorCode::kCancelled, "warm " + path_));
  Holding& holding = *view->holding_;
  DiskTier* tier = tier_for(holding.size);
  if (tier == nullptr || store_.is_held(record_)) return run();
  if (!store_.ram_.pin_for_write(holding)) {
    view->reset();
    return store_.timers_.after(kLookAgain, [this] { run(); });
  }
  tier->write(holding, record_, [this](Status written) {
    if (!written) return end(std::move(written));
    run();
  });
}

DiskTier* WarmJob::tier_for(std::uint64_t payload_bytes) const {
  for (std::size_t i = 0; i < store_.tiers_.size(); ++i) {
    if (store_.tiers_[i]->admits(payload_bytes) && store_.wants(i, entry_)) return store_.tiers_[i].get();
  }
  return nullptr;
}

void WarmJob::end(Status status) {
  done_(std::move(status));
  delete this;
}

}  // namespace headrace::cache
