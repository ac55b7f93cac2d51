// SPDX-License-Identifier: Apache-2.0
// What a process that serves a mount leaves for its successor: which samples it pushed, where the reader was, and which
// files are not as catalogued any more.
//
//   Result<Takeover> takeover = open_takeover(channel, store.catalog());
//   takeover->pages[sample].held = true;      // the successor finds it so
//
// It lies in the channel's shared memory: a head, then one ChangedFile per entry, then one SamplePages per sample. What
// is never written takes no memory. A process may die between any two
// writes. Whatever the successor finds there is safe to act on: a sample that is wrongly taken for pushed costs one
// READ.
//
// Thread-safety: as the owner's (SharedPlan's lock guards it). Ownership: the channel's memory.
#pragma once

#include <cstdint>
#include <span>

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
  std::uint64_t epoch = 0;  // where the reader is
  std::uint64_t position = 0;
  std::uint64_t changed_count = 0;
};

struct Takeover {
  TakeoverHead* head = nullptr;
  std::span<ChangedFile> changed;  // the first head->changed_count are in use
  std::span<SamplePages> pages;    // by sample
};

// Inode numbers follow from the catalog, so a process with another catalog would serve one file's bytes as another's.
// Errors: kStale (the catalog is not the one that the mount was made with), kSystem.
[[nodiscard]] Result<Takeover> open_takeover(Channel& channel, const cache::Catalog& catalog);

}  // namespace headrace::fuse
