// SPDX-License-Identifier: Apache-2.0
// The connection to the kernel of one mount: the /dev/fuse descriptor and the INIT request that the kernel sent first.
// Whoever holds it keeps the mount alive, so that one process may die and another take over (fuse/supervisor.h).
//
//   auto channel = open_channel({.mountpoint = "/mnt/imagenet"});   // mounted; reads wait for somebody to answer
//   auto mount = Mount::start(*store, options, *channel);
//
// Thread-safety: none; one owner. Ownership: the descriptor closes with the object; that does not unmount.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "headrace/cache/catalog.h"
#include "headrace/io/result.h"

namespace headrace::fuse {

using io::Result;
using io::Status;

class RequestLog;

struct ChannelOptions {
  std::filesystem::path mountpoint;
  std::string source_name = "headrace";
  bool allow_other = false;
  bool over_source = false;  // the mount point has content that the mount hides: the source itself
  // Who served what may be mounted there already, if that is known. A mount that does not answer is cleared where this
  // process was killed and one of its threads waits for the mount itself, for ever.
  pid_t served_by = 0;
  // Where the catalog is kept for a process that takes over, in a file without a name. Empty, full, or a file system
  // that has no such files: in memory.
  std::filesystem::path scratch_folder = {};
};

// What another program needs to go on with a channel: its descriptors, and what they belong to.
struct ChannelParts {
  int fd = -1;
  int shared_fd = -1;
  std::array<int, 2> catalog_fds = {-1, -1};  // of every second generation each
  std::array<int, 2> takeover_fds = {-1, -1};
  std::array<int, 2> catalog_memory_fds = {-1, -1};  // -1: of a program that had none of them
  std::filesystem::path path;
  std::string device;
  bool serves_others = false;
};

// How the catalog that a mount goes on with differs from the one before.
struct RenewedNames {
  std::uint64_t changed = 0;   // files
  std::uint64_t vanished = 0;  // names, as all below
  std::uint64_t appeared = 0;
};

// Two programs with the same number understand each other's channel: the layouts of its memory and of the catalog that
// is kept, and what INIT was answered with. Raise it with any of these.
inline constexpr unsigned kHandoverVersion = 3;

class Channel {
 public:
  // Goes on with the channel of the program that this one replaced. Takes the descriptors. Errors: kSystem.
  [[nodiscard]] static Result<Channel> take_over(const ChannelParts& parts);
  [[nodiscard]] ChannelParts parts() const;
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // Lets go of /dev/fuse, and of nothing else.
  void hang_up();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }  // of the mount point, resolved
  [[nodiscard]] bool serves_others() const { return serves_others_; }        // ChannelOptions::allow_other
  [[nodiscard]] const std::string& device() const { return device_; }        // "0:35": the mount's, as mountinfo has it
  [[nodiscard]] std::span<const std::byte> init_request() const;
  // True once INIT was answered, by this process or by one that shared the channel across fork().
  [[nodiscard]] bool init_answered() const;
  void set_init_answered();
  // What was read from /dev/fuse and not answered, by whichever process. It outlives the channel with its session.
  [[nodiscard]] const std::shared_ptr<RequestLog>& request_log() const { return request_log_; }
  // A mount goes on with another catalog when its source has other names (Mount::renew()). The catalog and the memory
  // below are of one generation each; the first is 0.
  [[nodiscard]] std::uint64_t generation() const;
  // Memory of at least this size, zero at first, that a process which takes over finds as it was left. Valid as long as
  // the channel; ask for the same size each time.
  [[nodiscard]] Result<std::span<std::byte>> takeover_memory(std::size_t bytes);
  // The catalog that the mount shows (cache::StoreOptions::catalog_fd): the source may have other names now. -1: none
  // was kept.
  [[nodiscard]] int catalog_fd() const;
  // The one of the generation before; -1: there is none.
  [[nodiscard]] int catalog_before_fd() const;
  // In memory where the scratch folder has no room for it.
  Status keep_catalog(const cache::Catalog& catalog);
  // Why the catalog takes memory, and what to do; empty: it does not, or the machine offers nothing else.
  [[nodiscard]] std::string catalog_fallback() const;
  // For the next generation: what was there before is lost. Errors: kSystem; then nothing has changed.
  [[nodiscard]] Result<std::span<std::byte>> make_next(const cache::Catalog& catalog, std::size_t memory_bytes);
  // Whoever takes over from now on begins with what make_next() left.
  void begin_next();

 private:
  friend Result<Channel> open_channel(const ChannelOptions& options);
  struct Shared;  // in memory that forked processes share
  Channel() = default;
  Status share_memory(const ChannelOptions& options);
  Status map_shared();
  [[nodiscard]] Status save_catalog(const cache::Catalog& catalog, std::size_t slot);
  void show_catalog(std::size_t slot);
  [[nodiscard]] int catalog_fd_in(std::size_t slot) const;
  void close();
  [[nodiscard]] std::size_t slot() const;  // of this generation

  int fd_ = -1;
  std::filesystem::path path_;
  std::string device_;
  bool serves_others_ = false;
  int shared_fd_ = -1;  // memfd
  Shared* shared_ = nullptr;
  std::shared_ptr<RequestLog> request_log_;
  std::array<int, 2> catalog_fds_ = {-1, -1};         // of this generation and the one before or after it
  std::array<int, 2> takeover_fds_ = {-1, -1};        // memfd
  std::array<int, 2> catalog_memory_fds_ = {-1, -1};  // memfd, empty as long as catalog_fds_ have room
  std::filesystem::path scratch_folder_;              // empty after take_over()
  std::array<std::span<std::byte>, 2> takeovers_;     // their mappings in this process
};

// Mounts (through fusermount3 where the caller is not root) and takes the INIT request. A dead mount found at the mount
// point is cleared first. Errors, one clear line each: kNotFound (missing), kInvalidArgument (not a directory, not
// empty), kBusy (a mount is there already), kPermission, kUnsupported (no /dev/fuse).
[[nodiscard]] Result<Channel> open_channel(const ChannelOptions& options);

// Ends the mount at `mountpoint`, lazily where it is in use: an overlay over it, then itself, also when its daemon is
// dead. Success when nothing of headrace is mounted there. Errors: kPermission, kBusy.
[[nodiscard]] Status unmount(const std::filesystem::path& mountpoint);
// The same for this channel's mount alone: not for one that was made at the same place later.
[[nodiscard]] Status unmount(const Channel& channel);

// The devices ("0:35") of what unmount() would end there; empty: nothing.
[[nodiscard]] std::vector<std::string> devices_at(const std::filesystem::path& mountpoint);

}  // namespace headrace::fuse
