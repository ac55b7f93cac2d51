// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/index_visit.h"

namespace headrace::decode {

bool IndexVisit::begin(CropIndexes& indexes, std::span<const std::byte> file, ScanIndex& index) {
  indexes_ = &indexes;
  content_ = CropIndexes::content_of(file);
  covered_ = 0;
  if (!indexes.find(content_, packed_)) return true;
  if (packed_.empty()) return false;
  if (index.unpack(packed_, content_.low)) covered_ = index.covered();
  return true;
}

CropWay IndexVisit::end(const ScanIndex& index) {
  if (index.covered() == covered_) return CropWay::kIndexed;
  return indexes_->keep(content_, index.pack(content_.low)) ? CropWay::kMade : CropWay::kNoRoom;
}

void IndexVisit::end_damaged() {
  indexes_->keep(content_, {});
}

}  // namespace headrace::decode
