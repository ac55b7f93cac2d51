// SPDX-License-Identifier: Apache-2.0
// Which files of a tree are samples, and in which order: the rules of the loaders, reproduced to the byte, because
// sample i of an order is whatever the loader calls dataset[i].
//
//   Result<Listing> listing = list_samples(catalog, {.listing = ListingRule::kTimm});
//
//   kImageFolder  torchvision's ImageFolder. The classes are the folders of the root, sorted. In each, the folders
//                 below come sorted by their whole path, then the names. Nine image suffixes in any case. Symlinks are
//                 followed.
//   kTimm         timm's ImageFolder reader. All folders, .png .jpg .jpeg, sorted by the natural key of the lower-cased
//                 path. timm leaves the order of paths that differ only in case or leading zeros to readdir; here their
//                 bytes decide.
//   kDali         DALI's readers.file. The folders of the root, not what lies deeper, sorted by bytes.
//   kKeras        image_dataset_from_directory. As ImageFolder, with Keras' suffixes, without hidden classes and
//                 without symlinked folders.
//   kSorted       Every file, sorted by path. Symlinked folders are not entered.
//
// Names sort as Python sorts str: by bytes, except names that are not valid UTF-8 (cache/catalog/names.h).
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

struct Listing {
  ListingRule rule = ListingRule::kSorted;  // the rule in use: kSorted where the one asked for found nothing
  std::vector<EntryId> samples;             // see Catalog::sample_entry
  std::vector<std::uint32_t> labels;        // one per sample, below class_count; empty: there are no classes
  std::uint32_t class_count = 0;
  std::unordered_map<SampleIndex, std::string> ways;  // where they were asked for: see loader_paths()
};

// Lists by the rule, or from options.sample_list: one relative path per line, in order. A blank and a label may follow
// the path (DALI's file_list). Without a label, the label is the rank of the top folder, as in ImageFolder.
// Errors: kNotFound (no such list), kInvalidArgument (a line that names no file of the tree).
[[nodiscard]] Result<Listing> list_samples(const Catalog& tree, const CatalogOptions& options);

// What the loader calls the samples that it reaches through symlinks; the others are called as their entries are.
// Errors: as list_samples().
using LoaderPaths = std::unordered_map<SampleIndex, std::string>;
[[nodiscard]] Result<LoaderPaths> loader_paths(const Catalog& tree, const CatalogOptions& options);
// The path of a sample as its loader names it.
[[nodiscard]] std::string loader_path(const Catalog& tree, const LoaderPaths& paths, SampleIndex sample);

// Identifies the content of a sample list; 0 stands for no list, an empty path.
[[nodiscard]] std::uint64_t hash_sample_list(const std::filesystem::path& list);

}  // namespace headrace::cache
