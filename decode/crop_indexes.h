// SPDX-License-Identifier: Apache-2.0
// Remembers where in a JPEG's Huffman codes decoding can begin, so that the next crop of the same file need not decode
// all that lies before it. The first crop of a file makes its index along the way.
//
//   CropIndexes indexes(256 << 20);
//   decoder.use_indexes(indexes);   // of as many decoders as there are
//   print(indexes.report().indexed);
//
// An index is found by the checksum (XXH3, 128 bits) of the file's bytes, whatever the file is called: bytes that
// changed have no index. With a CropIndexFolder they lie there, and outlive the process; memory holds what it does not
// take. A folder also keeps the progressive JPEGs' pictures as baseline files: of a progressive one no part can be
// decoded alone. Nothing is evicted from memory, as every epoch crops every file; once the budget is used up, further
// files go without.
//
// Thread-safety: any thread. Ownership: outlives the decoders that use it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "headrace/decode/crop_index_folder.h"
#include "headrace/io/mutex.h"

namespace headrace::decode {

// How a crop of a JPEG was decoded.
enum class CropWay : std::uint8_t {
  kIndexed,    // from an index that covered all of it
  kMade,       // and its index made, or continued
  kNoRoom,     // the budget did not allow to keep the index
  kUnsuited,   // all of the file: progressive, arithmetic coding or several scans, and no folder that keeps the same
               // picture as a baseline file; or nothing that ends it
  kDamaged,    // all of the file, because libjpeg has to judge its damage
  kStrict,     // all of the file, because Damage::kReject asks for it
  kUnchecked,  // all of the file: this libjpeg is not known, or failed the check at the start (the log says so)
};
constexpr std::size_t kCropWays = 7;
// "indexed", "made", "no_room" and so on.
[[nodiscard]] std::string_view name_of(CropWay way);

// Whether crops of JPEGs can begin within the file, with the libjpeg that this process has. Found out once; what does
// not work is logged.
enum class IndexSupport : std::uint8_t {
  kWorks,
  kUnknownLibrary,  // compiled with a libjpeg whose inside is not known here
  kFailedCheck,     // a few small pictures came out differently
};
[[nodiscard]] IndexSupport index_support();
// What this was compiled with: "2.1.5". Empty: not libjpeg-turbo.
[[nodiscard]] std::string_view libjpeg_turbo_version();

struct CropReport {
  std::array<std::uint64_t, kCropWays> crops = {};  // by CropWay
  std::uint64_t files = 0;                          // that have an index, or are known to be damaged
  std::uint64_t bytes = 0;                          // of memory for these
  std::uint64_t folder_bytes = 0;                   // of the indexes in the folder, of all data sets
  [[nodiscard]] std::uint64_t count(CropWay way) const { return crops[static_cast<std::size_t>(way)]; }
};

class CropIndexes {
 public:
  using Content = ContentId;
  [[nodiscard]] static Content content_of(std::span<const std::byte> bytes) { return content_id(bytes); }

  // `folder` outlives this; nullptr: memory only.
  explicit CropIndexes(std::size_t budget_bytes, CropIndexFolder* folder = nullptr)
      : budget_bytes_(budget_bytes), folder_(folder) {}
  CropIndexes(const CropIndexes&) = delete;
  CropIndexes& operator=(const CropIndexes&) = delete;

  // Copies the packed index. False: there is none. Empty: the file is damaged.
  [[nodiscard]] bool find(const Content& content, std::vector<std::byte>& packed) const;
  // Replaces a shorter one. False: no room.
  bool keep(const Content& content, std::vector<std::byte> packed);
  // Of a JPEG whose parts cannot be decoded alone, the same picture as a baseline file (internal/jpeg_baseline.h) is
  // kept in place of an index: in a folder only.
  [[nodiscard]] bool takes_baselines() const { return folder_ != nullptr && folder_->takes_baselines(); }
  // `packed` is empty where there can be none; one that is too large for the folder counts as that.
  void keep_baseline(const Content& content, std::span<const std::byte> packed);
  void count(CropWay way) { crops_[static_cast<std::size_t>(way)].fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] CropReport report() const;

 private:
  struct Hash {
    std::size_t operator()(const Content& content) const { return static_cast<std::size_t>(content.low); }
  };
  struct Shard {
    mutable io::Mutex mutex;
    std::unordered_map<Content, std::vector<std::byte>, Hash> indexes HEADRACE_GUARDED_BY(mutex);
  };
  static constexpr std::size_t kShards = 16;  // decoders of other files seldom wait for each other

  [[nodiscard]] const Shard& shard_of(const Content& content) const { return shards_[content.high % kShards]; }
  [[nodiscard]] Shard& shard_of(const Content& content) { return shards_[content.high % kShards]; }
  [[nodiscard]] bool find_in_memory(const Content& content, std::vector<std::byte>& packed) const;
  bool keep_in_memory(const Content& content, std::vector<std::byte> packed);
  bool take(std::size_t bytes);

  const std::size_t budget_bytes_;
  CropIndexFolder* const folder_;
  std::array<Shard, kShards> shards_;
  std::atomic<std::size_t> bytes_ = 0;
  std::array<std::atomic<std::uint64_t>, kCropWays> crops_ = {};
};

}  // namespace headrace::decode
