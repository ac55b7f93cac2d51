// SPDX-License-Identifier: Apache-2.0
// The folder of a disk tier: made or checked, locked for one process, labelled.
//
// Everything in it is reached through its descriptor and without following symbolic links, and it must belong to the
// calling user alone: nobody else can put another file in the place of one of ours.
//
// Thread-safety: none needed after open(). Ownership: the lock is held for as long as the object lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/disk/record_format.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

using io::Result;
using io::Status;

class TierFolder {
 public:
  enum class Mode : std::uint8_t {
    kCreate,    // locks the tier, makes it where there is none
    kOwner,     // locks the tier that is there
    kReadOnly,  // takes no lock
    kRemover,   // locks the tier that is there, whatever its label says
  };

  // `segment_bytes` is for a tier that is made now; an older one keeps its own.
  // A tier of an earlier format counts as missing; kCreate empties it and makes it anew.
  // Errors: kBusy (naming the process that owns it), kPermission (others may write to it), kUnsupported (a newer
  // format), kCorrupt (its label), kInvalidArgument (kCreate: other files in it), kNotFound, else the system's.
  [[nodiscard]] static Result<TierFolder> open(const std::filesystem::path& path, std::uint64_t segment_bytes,
                                               Mode mode);

  // Whether another process has locked it now. It takes the lock for a moment to find out.
  [[nodiscard]] static bool is_locked(const std::filesystem::path& path);

  ~TierFolder();
  TierFolder(TierFolder&&) = default;
  TierFolder& operator=(TierFolder&&) = delete;
  TierFolder(const TierFolder&) = delete;
  TierFolder& operator=(const TierFolder&) = delete;

  [[nodiscard]] const TierLabel& label() const { return label_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The ring that writes here registers it: then the lock of a killed process lasts until its last write has ended.
  [[nodiscard]] int lock_fd() const { return lock_fd_.get(); }
  // Ascending.
  [[nodiscard]] Result<std::vector<std::uint32_t>> segment_numbers() const;
  [[nodiscard]] Result<io::UniqueFd> open_file(const std::string& name, int flags) const;
  // Whatever happens on the way, the file then has either this content or the one from before.
  [[nodiscard]] Status replace_file(const std::string& name, std::span<const std::byte> head,
                                    std::span<const std::byte> body, bool sync) const;
  void remove_file(const std::string& name) const;
  void remove_drafts() const;               // what a killed process had not renamed yet
  [[nodiscard]] Status remove_all() const;  // every file of the tier
  // Reads the whole of a file of at most `bytes_max`.
  [[nodiscard]] Result<std::vector<std::byte>> read_file(const std::string& name, std::uint64_t bytes_max) const;

  // Which data sets have records here: key and source.
  struct DataSetName {
    std::uint64_t key = 0;
    std::string source;
  };
  [[nodiscard]] std::vector<DataSetName> data_sets() const;
  [[nodiscard]] Status add_data_set(const DataSetName& data_set) const;

 private:
  TierFolder(std::string path, io::UniqueFd fd, std::uint64_t segment_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), segment_bytes_(segment_bytes) {}
  [[nodiscard]] bool has_no_label() const;
  [[nodiscard]] Status check_owner() const;
  [[nodiscard]] Status take_or_make();
  [[nodiscard]] bool holds_nothing_else() const;
  [[nodiscard]] Status remove_segments() const;
  [[nodiscard]] Result<std::vector<std::string>> list() const;
  [[nodiscard]] Status take_lock();
  [[nodiscard]] tl::unexpected<io::Error> unusable(io::ErrorCode code, std::string_view what) const;
  [[nodiscard]] Status read_label();
  [[nodiscard]] Status write_label(std::uint64_t segment_bytes);

  std::string path_;
  io::UniqueFd fd_;
  std::uint64_t segment_bytes_;  // of a tier that is made now
  io::UniqueFd lock_fd_;
  TierLabel label_;
};

[[nodiscard]] std::string segment_name(std::uint32_t number);
[[nodiscard]] std::string segment_index_name(std::uint32_t number);

}  // namespace headrace::cache
