// SPDX-License-Identifier: Apache-2.0
// A data set that is open: what hr_dataset stands for. Shared by the handle, by loaders, and by batches whose bytes lie
// in its store.
//
// Thread-safety: every function from any thread.
#pragma once

#include <memory>
#include <string_view>

#include "headrace/cache/listing.h"
#include "headrace/cache/order.h"
#include "headrace/cache/record_set.h"
#include "headrace/cache/store.h"
#include "headrace/capi/headrace.h"
#include "headrace/capi/internal/guard.h"

namespace headrace::capi {

struct Dataset {
  Home home;
  bool is_mount = false;
  std::unique_ptr<cache::Store> store;
  std::shared_ptr<const cache::RecordSet> records;  // the samples; null: they are the catalog's
  cache::LoaderPaths paths;                         // of the samples that lie behind links

  [[nodiscard]] const cache::Catalog& catalog() const { return store->catalog(); }
  [[nodiscard]] std::uint64_t sample_count() const { return records ? records->count() : catalog().sample_count(); }
  // The file that a sample is, or the pack that it lies in. Precondition: index < sample_count().
  [[nodiscard]] cache::EntryId entry(cache::SampleIndex index) const {
    return records ? records->entry(index) : catalog().sample_entry(index);
  }
  // Errors: those of cache::make_order().
  [[nodiscard]] io::Result<std::unique_ptr<cache::Order>> order(std::string_view spec) const;
};

// Errors: as hr_dataset_open().
[[nodiscard]] io::Result<std::shared_ptr<Dataset>> open_dataset(const hr_dataset_options& options);

}  // namespace headrace::capi

struct hr_dataset {
  std::shared_ptr<headrace::capi::Dataset> shared;
};
