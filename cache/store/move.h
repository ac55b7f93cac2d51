// SPDX-License-Identifier: Apache-2.0
// A move brings one range of a file into memory, from the fastest place that has it, to those that wait for it.
//
// Its life: it gets a part of the memory budget, asks the disk tiers from the fastest to the slowest, then what lies
// beyond them. It ends exactly once. Each that waits at its holding gets a view of what came, or the error.
//
// The virtual functions below hold the differences between the kinds of moves: a chunk, which all that want it share
// and which may stay in memory (fetch.h); a range alone (lean_read.h); some pieces of a chunk that a disk tier has
// (part_read.h); several chunks in one buffer (gathered_read.h).
//
// Thread-safety: one step at a time, each on the thread where the step before completed.
// Ownership: the mover's (mover.h), until the step that ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "headrace/cache/chunk.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/store/store_parts.h"
#include "headrace/cache/view.h"

namespace headrace::cache {

[[nodiscard]] constexpr bool is_ahead(ReadHint hint) {
  return hint != ReadHint::kNow && hint != ReadHint::kNowHere;
}
[[nodiscard]] constexpr bool is_alone(ReadHint hint) {
  return hint == ReadHint::kAheadAlone || hint == ReadHint::kAheadUnasked;
}
[[nodiscard]] constexpr bool may_wait_here(ReadHint hint) {
  return hint == ReadHint::kNowHere || hint == ReadHint::kAheadHere;
}

[[nodiscard]] io::Error changed_meanwhile(const StoreParts& store, EntryId entry);
// Returns what a waiter gets of a holding that is ready. Takes over a pin.
[[nodiscard]] Result<View> view_of(StoreParts& store, Holding& holding, TierKind from, const Waiter& waiter);
// A holding that nobody else finds, with a pin for the move that fills it. It goes with the view of its waiter.
[[nodiscard]] Holding& unlisted_holding(StoreParts& store, EntryId entry, ReadHint hint, Waiter waiter);

class Move : public MemoryRequest, public UnderWay {
 public:
  struct Cargo {
    Identity identity;  // the version of the file
    ChunkRange range;
    std::uint64_t memory_bytes = 0;  // of the buffer
    std::uint64_t spare_bytes = 0;   // that are reserved beyond it, at the same time
  };

  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;
  [[nodiscard]] bool ahead() const final { return !holding_.wanted_now; }
  void granted() final;
  void denied(io::Error error) final { fail(error); }
  [[nodiscard]] RamTier::Wanted want() final;

 protected:
  // `holding` has the move's pin.
  Move(StoreParts& store, Holding& holding, const Cargo& cargo, ReadHint hint);

  // These differ between the kinds.
  virtual void ask_first() = 0;                    // memory is there; ask_tiers() or ask_beyond_tiers() follows
  [[nodiscard]] virtual bool ask(DiskTier& tier);  // false: the tier has not got it
  virtual void ask_beyond_tiers() { read_source(); }
  virtual void copy(TierKind from) = 0;  // to faster places, from the holding
  virtual void on_failure(const io::Error& error) { fail(error); }
  // Looks what is at the file's path now, within an answer of the source that says it is another version. False: that
  // cannot be told.
  [[nodiscard]] virtual bool see_file_anew();

  // The steps.
  void begin();
  void ask_tiers();
  void on_tier_answer(io::Buffer buffer, std::byte* data, const Status& status);
  void skip_tiers();
  void read_source();
  void finish(std::byte* data, TierKind from);
  void fail(const io::Error& error);
  // The holding and its memory are given back. The caller has taken the move, and answers those that wait.
  [[nodiscard]] Waiter* give_up();

  [[nodiscard]] io::Error cancelled() const { return {io::ErrorCode::kCancelled, 0, "read " + path_}; }
  [[nodiscard]] EntryId entry() const { return holding_.key.entry; }
  // Looks what is at the file's path now, if the error says that the file is another version. nullopt: the move ends
  // with the error, see StoreParts::version_anew().
  [[nodiscard]] std::optional<Identity> version_anew(const io::Error& error, unsigned attempts_left);
  // How the move is wanted by now, for a read in place of it on whatever thread.
  [[nodiscard]] ReadHint hint_by_now() const;

  StoreParts& store_;
  Holding& holding_;
  const Identity identity_;
  const AttributeClass attributes_;  // when the move began: its readers may have been let in by these
  const ReadHint hint_;
  const std::thread::id waits_here_;  // the thread that may wait for the source; none: nobody may
  const ChunkRange range_;
  const std::uint64_t buffer_bytes_;
  std::string path_;           // once there is memory
  io::Buffer buffer_;          // where no place has it just now
  std::size_t next_tier_ = 0;  // the first that was not asked; those before it may take a copy
  DiskRead disk_read_;
  SourceRead source_read_;

 private:
  bool begun_ = false;  // it has its memory
};

}  // namespace headrace::cache
