// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/fill.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "headrace/cache/source/source.h"
#include "headrace/cache/store/confirm.h"
#include "headrace/cache/store/fetch.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

// How soon a fill looks again for what somebody else is writing just now; a write takes about as long.
constexpr std::chrono::milliseconds kLookAgain{5};

// Walks through the chunks of a file. Each kind of fill says where they go.
// Ownership: the mover's, until it is done.
// Thread-safety: any thread, one step at a time.
class Fill : public UnderWay {
 public:
  Fill(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done)
      : UnderWay(entry),
        store_(store),
        entry_(entry),
        path_(store.catalog.path(entry)),
        done_(std::move(done)),
        identity_(identity) {}
  // Deals with the next chunk that is not held.
  void run();

 protected:
  // Both say whether the place is known to hold the chunk: before it is read, and after.
  [[nodiscard]] virtual bool holds() const = 0;
  [[nodiscard]] virtual bool holds_by_now(const View& read) const = 0;
  // Says why the place takes no chunk of so many bytes now.
  [[nodiscard]] virtual Status check_takes(std::uint64_t payload_bytes) = 0;
  // Says in the request whom the chunk is for.
  virtual void mark(ChunkRequest& request) const = 0;
  // Writes the chunk; on_written() follows.
  virtual void write(Holding& holding) = 0;
  // All chunks are held.
  virtual void end_held() { end({}); }

  void on_written(Status written);
  void begin_anew();
  void end(Status status);
  [[nodiscard]] Status failure(ErrorCode code, const char* why) const {
    return io::make_error(code, "warm " + path_ + ": " + why);
  }

  StoreParts& store_;
  const EntryId entry_;
  const std::string path_;
  const std::function<void(Status)> done_;
  Identity identity_;
  std::uint32_t chunk_ = 0;  // those before it are held

 private:
  void on_read(Result<View> view);

  unsigned attempts_left_ = kAttemptsAfterChange;
};

void Fill::run() {
  const std::uint32_t chunks = chunk_count(identity_.size_bytes);
  while (chunk_ < chunks && holds()) chunk_ += 1;
  if (chunk_ == chunks) return end_held();
  if (Status takes = check_takes(chunk_range(identity_.size_bytes, chunk_).length); !takes) return end(takes);
  ChunkRequest request{.key = {entry_, chunk_}, .is_cut = is_chunked(identity_.size_bytes), .hint = ReadHint::kAhead};
  mark(request);
  read_chunk(store_, request, [this](Result<View> view) { on_read(std::move(view)); });
}

void Fill::on_read(Result<View> view) {
  if (!view && is_other_version(view.error())) return begin_anew();
  if (!view) return end(io::forward_error(std::move(view)));
  if (store_.closing.load()) return end(failure(ErrorCode::kCancelled, "the store is closing"));
  Holding& holding = *Holding::of(*view);
  if (holding.identity != identity_) return begin_anew();  // chunks of two versions are not the file
  if (holds_by_now(*view)) {
    view->reset();
    return on_written({});
  }
  if (Status takes = check_takes(holding.size); !takes) return end(takes);
  if (store_.ram.pin_for_write(holding)) return write(holding);
  view->reset();
  store_.timers.after(kLookAgain, [this] { run(); });
}

void Fill::on_written(Status written) {
  if (!written) return end(std::move(written));
  chunk_ += 1;
  run();
}

// With the file as it is known to be by now.
void Fill::begin_anew() {
  const std::optional<Identity> now = store_.version_anew(entry_, store_.identities.attributes(entry_), attempts_left_);
  if (!now || *now == identity_) {
    return end(failure(ErrorCode::kStale, "changes while it is read"));
  }
  attempts_left_ -= 1;
  identity_ = *now;
  chunk_ = 0;
  run();
}

void Fill::end(Status status) {
  const auto self = store_.mover.take(*this);
  done_(std::move(status));
}

class DiskFill final : public Fill {
 public:
  using Fill::Fill;

 private:
  [[nodiscard]] RecordId record() const { return {hash_name(path_, chunk_), chunk_, identity_}; }
  [[nodiscard]] bool holds() const override { return identity_.size_bytes == 0 || store_.held_on_disk(record()); }
  [[nodiscard]] bool holds_by_now(const View& /*read*/) const override { return holds(); }
  [[nodiscard]] Status check_takes(std::uint64_t payload_bytes) override;
  void mark(ChunkRequest& request) const override { request.for_disk_fill = true; }
  void write(Holding& holding) override;
  void end_held() override;

  DiskTier* tier_ = nullptr;  // the first that takes the chunk
};

Status DiskFill::check_takes(std::uint64_t payload_bytes) {
  for (std::size_t i = 0; i < store_.tiers.size(); ++i) {
    tier_ = store_.tiers[i].get();
    if (tier_->admits(payload_bytes) && store_.follower->wants(i, entry_)) return {};
  }
  return failure(ErrorCode::kNoSpace, "no disk tier takes it");
}

void DiskFill::write(Holding& holding) {
  store_.write(*tier_, holding, record(), [this, bytes = holding.size](Status written) {
    // A tier finds out that it is full by a write that fails. The next one may have room.
    const bool is_full = !written && written.error().code == ErrorCode::kNoSpace && !tier_->admits(bytes);
    is_full ? run() : on_written(std::move(written));
  });
}

// All is held of the version that is known. It has to be the one that the source has.
void DiskFill::end_held() {
  if (store_.identities.is_confirmed(entry_)) return end({});
  confirm(store_, entry_, identity_, false, [this](Status status) {
    const bool is_other = !status && is_other_version(status.error()) && store_.look_at(entry_, identity_);
    is_other ? begin_anew() : end(std::move(status));
  });
}

class PeerFill final : public Fill {
 public:
  using Fill::Fill;

 private:
  [[nodiscard]] bool holds() const override { return false; }  // only a read of the chunk tells
  [[nodiscard]] bool holds_by_now(const View& read) const override { return read.served_from() == TierKind::kShared; }
  [[nodiscard]] Status check_takes(std::uint64_t payload_bytes) override;
  void mark(ChunkRequest& request) const override { request.for_peer_fill = true; }
  void write(Holding& holding) override;
};

Status PeerFill::check_takes(std::uint64_t /*payload_bytes*/) {
  if (!store_.is_shared(entry_)) return failure(ErrorCode::kNotFound, "no peer is to hold it");
  if (!store_.peer_takes(entry_)) return failure(ErrorCode::kBusy, "its peer does not answer");
  return {};
}

void PeerFill::write(Holding& holding) {
  store_.share(holding, {entry_, chunk_, identity_}, [this](Status shared) { on_written(std::move(shared)); });
}

}  // namespace

void fill_disk_tiers(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done) {
  store.mover.add(std::make_unique<DiskFill>(store, entry, identity, std::move(done))).run();
}

void fill_peer(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done) {
  store.mover.add(std::make_unique<PeerFill>(store, entry, identity, std::move(done))).run();
}

}  // namespace headrace::cache
