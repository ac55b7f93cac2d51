// SPDX-License-Identifier: Apache-2.0
// Which files of a tree are samples, and in which order: the rules of the loaders, reproduced to the byte, because
// sample i of an order is whatever the loader calls dataset[i].
//
//   Result<Listing> listing = list_samples(catalog, {.listing = ListingRule::kTimm});
//
//   kImageFolder  torchvision ImageFolder: classes = sorted folders of the root; in each the folders below it sorted by
//                 their whole path, then the names; nine image suffixes, any case; symlinks followed
//   kTimm         timm's ImageFolder reader: all folders, .png .jpg .jpeg, sorted by natural key of the lower-cased
//   path.
//                 Paths that differ only in case or leading zeros are ties that timm leaves to readdir: bytes decide
//                 here
//   kDali         DALI's readers.file: sub-folders, not recursive, sorted by bytes
//   kKeras        image_dataset_from_directory: as ImageFolder with Keras' suffixes; hidden classes and symlinked
//   folders
//                 are left out
//   kSorted       every file, sorted by path; symlinked folders are not entered
//
// Names sort as Python sorts str: by bytes, but for names that are not valid UTF-8 (cache/catalog/names.h).
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

struct Listing {
  ListingRule rule = ListingRule::kSorted;  // the one in use: kSorted where the one asked for found nothing
  std::vector<EntryId> samples;             // see Catalog::sample_entry
  std::vector<std::uint32_t> labels;        // one per sample, below class_count; empty: there are no classes
  std::uint32_t class_count = 0;
};

// Lists by the rule, or from options.sample_list: one relative path per line, in order, optionally followed by a blank
// and a label (DALI's file_list); without one the label is the rank of its top folder, as in ImageFolder.
// Errors: kNotFound (no such list), kInvalidArgument (a line that names no file of the tree).
[[nodiscard]] Result<Listing> list_samples(const Catalog& tree, const CatalogOptions& options);

// Identifies the content of a sample list; 0 stands for no list, an empty path.
[[nodiscard]] std::uint64_t hash_sample_list(const std::filesystem::path& list);

}  // namespace headrace::cache
