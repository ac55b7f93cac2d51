// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/crop_indexes.h"

#include <utility>

namespace headrace::decode {
namespace {

// Of an entry, beside its index: its place in the table, its node, and what the allocator adds to two pieces.
constexpr std::size_t kEntryBytes = 112;

}  // namespace

std::string_view name_of(CropWay way) {
  constexpr std::array<std::string_view, kCropWays> kNames = {"indexed", "made",   "no_room",  "unsuited",
                                                              "damaged", "strict", "unchecked"};
  return kNames[static_cast<std::size_t>(way)];
}

bool CropIndexes::find(const Content& content, std::vector<std::byte>& packed) const {
  return find_in_memory(content, packed) || (folder_ != nullptr && folder_->find(content, packed));
}

bool CropIndexes::keep(const Content& content, std::vector<std::byte> packed) {
  return (folder_ != nullptr && folder_->keep(content, packed)) || keep_in_memory(content, std::move(packed));
}

void CropIndexes::keep_baseline(const Content& content, std::span<const std::byte> packed) {
  if (packed.size() > CropIndexFolder::kPackedMax) packed = {};
  static_cast<void>(folder_->keep(content, packed));
}

bool CropIndexes::find_in_memory(const Content& content, std::vector<std::byte>& packed) const {
  const Shard& shard = shard_of(content);
  io::MutexLock lock(shard.mutex);
  const auto found = shard.indexes.find(content);
  if (found == shard.indexes.end()) return false;
  packed = found->second;
  return true;
}

bool CropIndexes::take(std::size_t bytes) {
  if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= budget_bytes_) return true;
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

bool CropIndexes::keep_in_memory(const Content& content, std::vector<std::byte> packed) {
  Shard& shard = shard_of(content);
  io::MutexLock lock(shard.mutex);
  const auto found = shard.indexes.find(content);
  std::size_t held = 0;
  if (found != shard.indexes.end()) {
    // Another thread may have had the same file in the meantime. Damage stays.
    const bool better = packed.empty() || (!found->second.empty() && found->second.size() < packed.size());
    if (!better) return true;
    held = kEntryBytes + found->second.size();
  }
  const std::size_t wanted = kEntryBytes + packed.size();
  if (wanted > held && !take(wanted - held)) return false;
  if (wanted < held) bytes_.fetch_sub(held - wanted, std::memory_order_relaxed);
  shard.indexes[content] = std::move(packed);
  return true;
}

CropReport CropIndexes::report() const {
  CropReport report;
  for (std::size_t i = 0; i < kCropWays; ++i) report.crops[i] = crops_[i].load(std::memory_order_relaxed);
  for (const Shard& shard : shards_) {
    io::MutexLock lock(shard.mutex);
    report.files += shard.indexes.size();
  }
  report.bytes = bytes_.load(std::memory_order_relaxed);
  if (folder_ != nullptr) report.folder_bytes = folder_->bytes();
  return report;
}

}  // namespace headrace::decode
