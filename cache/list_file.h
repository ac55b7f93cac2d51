// SPDX-License-Identifier: Apache-2.0
// The samples that a text file names, one a line: a csv, a list of paths, of file names, or of names without endings.
//
//   std::vector<SampleIndex> listed = samples_named_in(text, catalog, folder_of_the_file, {.first = 0, .count = n});
//
// Which word of a line is the name, and of what kind, is told by the first lines. Paths may be relative to the data
// set or to the list's folder, or begin with folders that are neither (/mnt/train/a.jpg). Words end at commas,
// semicolons, tabs, spaces, colons, quotes and brackets, so that lines of JSON are lists as well.
//
// Thread-safety: pure. Memory: some 60 bytes for each sample of the range while it runs, where names are no paths.
#pragma once

#include <string_view>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"
#include "headrace/cache/order_learner.h"

namespace headrace::cache {

// Each sample of the range once, in the sequence of the lines. Empty: the text is no list of samples (fewer than 16, or
// more than one line in ten names none), or has all of them in the sequence of the catalog, which is known without it.
[[nodiscard]] std::vector<SampleIndex> samples_named_in(std::string_view text, const Catalog& catalog, EntryId folder,
                                                        const SampleRange& range);

}  // namespace headrace::cache
