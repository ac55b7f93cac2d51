// SPDX-License-Identifier: Apache-2.0
// A packed file while its index is read: bounded reads at 64-bit offsets, and errors that name the file.
//
//   HEADRACE_TRY(pack, PackFile::open(directory_fd, "data.mdb"));
//   std::array<std::byte, 8> head;
//   HEADRACE_TRY_DO(pack.read(0, head));
//   const auto magic = little_endian<std::uint32_t>(head, 0);
//
// No mmap: a file that is cut while it is read gives an error and no SIGBUS.
// Thread-safety: read() from any thread while no reads are noted. Ownership: closes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/record_map.h"
#include "headrace/io/file_attributes.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

class PackFile {
 public:
  // Regular files only.
  [[nodiscard]] static io::Result<PackFile> open(int directory_fd, const std::string& path);

  [[nodiscard]] std::uint64_t size() const { return version_.size_bytes; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // What the file was when it was opened.
  [[nodiscard]] const io::FileAttributes& version() const { return version_; }
  // kStale: the file has changed since it was opened, and what was read of it may be of two versions.
  [[nodiscard]] io::Status confirm() const;
  // All of `bytes`, or an error: kCorrupt where they do not lie in the file, kShortRead where it became shorter.
  [[nodiscard]] io::Status read(std::uint64_t offset, std::span<std::byte> bytes) const;
  // Where this and the functions below read from now on; nullptr: nobody wants to know. At most kNotedMax reads.
  void note_reads(std::vector<RecordExtent>* reads) { noted_ = reads; }
  static constexpr std::size_t kNotedMax = 1 << 20;
  // Gives `take` each entry of a table, in pieces, so that a large one takes no memory. Ends with the first error.
  // kCorrupt where the table does not lie in the file.
  using TakeEntry = std::function<io::Status(std::span<const std::byte>)>;
  [[nodiscard]] io::Status read_table(std::uint64_t offset, std::uint64_t entries, std::size_t entry_bytes,
                                      const TakeEntry& take) const;
  // kCorrupt, and what is wrong with this file.
  [[nodiscard]] tl::unexpected<io::Error> corrupt(std::string_view what) const;
  [[nodiscard]] tl::unexpected<io::Error> unsupported(std::string_view what) const;

 private:
  io::UniqueFd fd_;
  std::string path_;
  io::FileAttributes version_;
  std::vector<RecordExtent>* noted_ = nullptr;
};

// Reads the heads of a pack's records, one after the other. Where they lie close together, many come with one read.
// Thread-safety: none; one owner.
class PackWalk {
 public:
  explicit PackWalk(const PackFile& pack) : pack_(pack) {}
  // As PackFile::read().
  [[nodiscard]] io::Status read(std::uint64_t offset, std::span<std::byte> bytes);

 private:
  [[nodiscard]] bool has(std::uint64_t offset, std::size_t bytes) const;

  const PackFile& pack_;
  std::uint64_t last_ = 0;  // where the read before began
  std::uint64_t window_at_ = 0;
  std::vector<std::byte> window_;  // empty: the heads lie far from each other
};

// Precondition: at + sizeof(Number) <= bytes.size().
template <typename Number>
[[nodiscard]] Number little_endian(std::span<const std::byte> bytes, std::size_t at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number = static_cast<Number>(number | static_cast<Number>(static_cast<Number>(bytes[at + i]) << (8 * i)));
  }
  return number;
}

}  // namespace headrace::cache
