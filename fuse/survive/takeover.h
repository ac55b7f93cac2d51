// SPDX-License-Identifier: Apache-2.0
// What a process that serves a mount leaves for its successor: which samples it pushed, where the reader was, and which
// files are not as catalogued any more.
//
//   Result<Takeover> takeover = open_takeover(channel, store.catalog());
//   takeover->pages[sample].held = true;      // the successor finds it so
//
// It lies in the channel's shared memory: a head, then one ChangedFile per entry, one number per entry, and one
// SamplePages per sample. What is never written takes no memory. A process may die between any two
// writes. Whatever the successor finds there is safe to act on: a sample that is wrongly taken for pushed costs one
// READ.
//
// Thread-safety: as the owner's (SharedPlan's lock guards it). Ownership: the channel's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/fuse/channel.h"
#include "headrace/fuse/survive/changed_files.h"
#include "headrace/io/result.h"

namespace headrace::fuse {

// What the page cache holds of a sample, and whether the kernel must be asked to look at the file again first.
struct SamplePages {
  bool held = false;      // pushed and counted
  bool released = false;  // the plan has no place for it any more
  bool stale = false;     // invalidated: the attributes went together with the pages
  bool read_in = false;   // not pushed: its pages came with a READ
  bool pinned = false;    // somebody said that it is to be held
};

struct TakeoverHead {
  std::uint64_t catalog_fingerprint = 0;
  std::uint64_t takeovers = 0;
  RenewedNames renewed = {};  // how this generation's catalog differs from the one before
  // Behind the largest that was ever given out; 0: the numbers are entries plus one.
  std::uint32_t name_numbers_end = 0;
  bool follows_before = false;  // epoch and position are of OrderCandidates::before
  bool is_untold = false;       // the kernel was not told yet which names are others
  std::uint8_t set = 0;         // where the reader is: in which set, if the order is over several, ...
  std::uint64_t epoch = 0;      // ... in which epoch of that
  std::uint64_t position = 0;
  std::uint64_t changed_count = 0;
};

struct Takeover {
  TakeoverHead* head = nullptr;
  std::span<ChangedFile> changed;  // the first head->changed_count are in use
  std::span<NameNumber> numbers;   // by entry; read where head->name_numbers_end is not 0
  std::span<SamplePages> pages;    // by sample
};

// What it takes for a catalog, and where its parts lie in that.
[[nodiscard]] std::size_t takeover_bytes(const cache::Catalog& catalog);
[[nodiscard]] Takeover takeover_in(std::span<std::byte> memory, const cache::Catalog& catalog);
[[nodiscard]] std::uint64_t fingerprint_of(const cache::Catalog& catalog);

// Inode numbers follow from the catalog, so a process with another catalog would serve one file's bytes as another's.
// Errors: kStale (the catalog is not the one that the mount was made with), kSystem.
// `fallbacks`: gets a line for what could not be kept as it usually is; null: nobody shows them.
[[nodiscard]] Result<Takeover> open_takeover(Channel& channel, const cache::Catalog& catalog,
                                             std::vector<std::string>* fallbacks = nullptr);
// The numbers that the kernel knows.
[[nodiscard]] std::shared_ptr<Inodes> make_inodes(const cache::Catalog& catalog, const Takeover& takeover,
                                                  bool takes_over);

}  // namespace headrace::fuse
