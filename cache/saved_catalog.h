// SPDX-License-Identifier: Apache-2.0
// What a saved catalog says of itself, read from its head alone: a catalog of millions of files is large.
//
//   HEADRACE_TRY(saved, describe_catalog("/var/cache/headrace/train-0123456789abcdef.catalog"));
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "headrace/io/result.h"

namespace headrace::cache {

struct SavedCatalog {
  std::string source;  // the folder that was scanned
  std::uint64_t entries = 0;
  std::uint64_t samples = 0;
};

// Errors: as Catalog::load(). What the arrays hold is not checked.
[[nodiscard]] io::Result<SavedCatalog> describe_catalog(const std::filesystem::path& file);

}  // namespace headrace::cache
