// SPDX-License-Identifier: Apache-2.0
// Keeps the indexes of JPEGs (crop_indexes.h) in a file, for the next training and for the other processes of this one.
//
//   HEADRACE_TRY(folder, CropIndexFolder::open("/var/cache/headrace/crop-indexes"));
//   if (!folder->find(content, packed)) folder->keep(content, made);
//
// The file `indexes-1` begins with a table of 524 288 buckets of 16 slots, which is sparse; the packed indexes follow,
// one after the other. A slot has 32 bytes, little-endian: content (16), place in the file (8), length (4), checksum
// of all this (4: XXH3's low half). Zeros: empty.
//
// Processes share the file. Who adds to it holds its lock (flock) for a few microseconds. Who looks up takes none: a
// slot that is written meanwhile fails its checksum, and is as good as empty. An index has a checksum of its own,
// which binds it to its content (scan_index.h). So what a crash, a full disk or another process leaves behind is no
// index, never a wrong one.
//
// Thread-safety: any thread. A child of fork() can look up, but not add: it shares its parent's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <unistd.h>

#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::decode {

// The checksum (XXH3, 128 bits) of a file's bytes.
struct ContentId {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const ContentId&, const ContentId&) = default;
};
[[nodiscard]] ContentId content_id(std::span<const std::byte> bytes);

// Where headrace keeps indexes unless somebody says otherwise: `crop-indexes` in its cache folder (io/own_folders.h).
// Errors: those of that folder.
[[nodiscard]] io::Result<std::filesystem::path> own_crop_index_folder();

class CropIndexFolder {
 public:
  // 8 GiB: of five million photographs. A file that has been full for a week is begun anew when it is opened: what is
  // there may be of data sets that are gone.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{8} << 30;

  // An image of 10^8 pixels, the largest that is decoded by default, has an index of 6 MB.
  static constexpr std::uint32_t kPackedMax = std::uint32_t{16} << 20;

  // Makes the folder (mode 0700) and the file where they are missing. Errors: kPermission (the file belongs to somebody
  // else), kSystem, kNoSpace, kUnsupported (files may not become so large: RLIMIT_FSIZE). `bytes_max` is for tests.
  [[nodiscard]] static io::Result<std::unique_ptr<CropIndexFolder>> open(const std::filesystem::path& folder,
                                                                         std::uint64_t bytes_max = kBytesMax);
  CropIndexFolder(const CropIndexFolder&) = delete;
  CropIndexFolder& operator=(const CropIndexFolder&) = delete;

  // False: there is none. Empty: the file is damaged.
  [[nodiscard]] bool find(const ContentId& content, std::vector<std::byte>& packed) const;
  // Replaces a shorter one, but not the news that the file is damaged. False: no room, or another process is adding, or
  // this one is a child of who opened it.
  bool keep(const ContentId& content, std::span<const std::byte> packed);

  // Whether there is room for pictures as well (internal/jpeg_baseline.h): they are a hundred times as large as
  // indexes, and get half of the file at most.
  [[nodiscard]] bool takes_baselines();

  // Of packed indexes, those that were replaced included.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Slot;
  struct Bucket;
  CropIndexFolder(io::UniqueFd file, std::uint64_t bytes_max) : file_(std::move(file)), bytes_max_(bytes_max) {}

  [[nodiscard]] bool read_bucket(const ContentId& content, Bucket& bucket) const;
  [[nodiscard]] bool read_packed(const Slot& slot, std::vector<std::byte>& packed) const;
  [[nodiscard]] bool add(const ContentId& content, std::span<const std::byte> packed) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool is_room_for(std::size_t bytes, std::uint64_t end) HEADRACE_REQUIRES(mutex_);

  const io::UniqueFd file_;
  const std::uint64_t bytes_max_;
  const pid_t owner_ = ::getpid();
  std::atomic<std::uint64_t> bytes_ = 0;
  io::Mutex mutex_;
  std::uint64_t looked_for_space_at_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool full_ HEADRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace::decode
