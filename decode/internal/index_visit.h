// SPDX-License-Identifier: Apache-2.0
// What one crop has to do with CropIndexes: before it, the file's index is looked up; after it, what was found out on
// the way is kept.
//
//   IndexVisit visit;
//   if (visit.begin(indexes, file, index)) {
//     ... decode, which may continue the index ...
//     visit.end(index);
//   }
//
// Thread-safety: none; one per decoder, reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/internal/scan_index.h"

namespace headrace::decode {

class IndexVisit {
 public:
  // Puts what is known into `index`, on which begin() was called. False: the file is known to be damaged. `indexes` has
  // to live until the end of the visit.
  [[nodiscard]] bool begin(CropIndexes& indexes, std::span<const std::byte> file, ScanIndex& index);
  // The crop is done. Keeps the index if it grew.
  CropWay end(const ScanIndex& index);
  // No walker will read this file.
  void end_damaged();

 private:
  CropIndexes* indexes_ = nullptr;
  CropIndexes::Content content_;
  std::vector<std::byte> packed_;
  std::uint32_t covered_ = 0;
};

}  // namespace headrace::decode
