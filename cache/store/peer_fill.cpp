// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/peer_fill.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "headrace/cache/store/fetch.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

// Ownership: its own; deletes itself once done.
class PeerFill {
 public:
  PeerFill(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done)
      : store_(store), entry_(entry), chunks_(chunk_count(identity.size_bytes)), done_(std::move(done)) {}
  // Deals with the next chunk; any thread, one at a time.
  void run();

 private:
  void on_read(Result<View> view);
  [[nodiscard]] io::Status failure(ErrorCode code, const char* why) const {
    return io::make_error(code, "warm " + store_.catalog.path(entry_) + ": " + why);
  }
  void end(Status status);

  StoreParts& store_;
  const EntryId entry_;
  const std::uint32_t chunks_;
  const std::function<void(Status)> done_;
  std::uint32_t chunk_ = 0;
};

void PeerFill::run() {
  if (chunk_ == chunks_) return end({});
  if (!store_.is_shared(entry_)) return end(failure(ErrorCode::kNotFound, "no peer is to hold it"));
  if (!store_.peer_takes(entry_)) return end(failure(ErrorCode::kBusy, "its peer does not answer"));
  read_chunk(store_, {.key = {entry_, chunk_}, .is_cut = chunks_ > 1, .hint = ReadHint::kAhead, .for_peer_fill = true},
             [this](Result<View> view) { on_read(std::move(view)); });
}

void PeerFill::on_read(Result<View> view) {
  if (!view) return end(io::forward_error(std::move(view)));
  if (store_.closing.load()) return end(failure(ErrorCode::kCancelled, "the store is closing"));
  if (view->served_from() == TierKind::kShared) {
    chunk_ += 1;
    view->reset();
    return run();
  }
  Holding& holding = *Holding::of(*view);
  if (!store_.ram.pin_for_write(holding)) {
    view->reset();
    return store_.timers.after(kLookAgain, [this] { run(); });
  }
  store_.share(holding, {entry_, chunk_, holding.identity}, [this](Status shared) {
    if (!shared) return end(std::move(shared));
    chunk_ += 1;
    run();
  });
}

void PeerFill::end(Status status) {
  done_(std::move(status));
  delete this;
}

}  // namespace

void fill_peer(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done) {
  (new PeerFill(store, entry, identity, std::move(done)))->run();
}

}  // namespace headrace::cache
