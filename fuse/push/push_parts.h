// SPDX-License-Identifier: Apache-2.0
// What the parts of the pusher work with: what they push comes from the store, and stands for inodes of the mount.
// Thread-safety: as its members. Ownership: the store outlives it.
#pragma once

#include <memory>

#include "headrace/cache/store.h"
#include "headrace/fuse/kernel/inodes.h"
#include "headrace/fuse/push/pack_records.h"

namespace headrace::fuse {

struct PushParts {
  cache::Store& store;
  const cache::Catalog& catalog;
  std::shared_ptr<Inodes> inodes;
  std::shared_ptr<const PackRecords> records;  // null: samples are files

  [[nodiscard]] cache::EntryId entry_of(cache::SampleIndex sample) const {
    return records ? records->entry_of(sample) : catalog.sample_entry(sample);
  }
  // As far as it is known.
  [[nodiscard]] cache::Identity identity_of(cache::EntryId entry) const {
    return store.identity(entry).value_or(catalog.identity(entry));
  }
};

}  // namespace headrace::fuse
