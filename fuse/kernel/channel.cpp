// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 312
#include "headrace/fuse/channel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/fuse/kernel/request_log.h"
#include "headrace/io/log.h"
#include "headrace/io/unique_fd.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace headrace::fuse {
using io::ErrorCode;

// INIT is 104 bytes with protocol 7.36 and later; the kernel refuses to hand over a request to a buffer under 8 KiB.
struct Channel::Shared {
  std::atomic<bool> init_answered = false;
  std::array<std::atomic<bool>, 2> has_catalog = {};
  std::atomic<std::uint64_t> generation = 0;
  std::size_t init_bytes = 0;
  std::array<std::byte, 8192> init = {};
  // Behind the rest: a program that does not know it goes on as if no catalog had been kept.
  std::array<std::atomic<bool>, 2> has_catalog_in_memory = {};
};

namespace {

// Where the log of requests begins in that memory: a multiple of every page size.
constexpr std::size_t kRequestLogOffset = 64 << 10;

// The library reports the reason for a failed mount as text only; kept for the error of the call that failed.
thread_local std::string last_library_message;

void keep_library_message(fuse_log_level, const char* format, std::va_list arguments) {
  std::array<char, 512> line = {};
  std::vsnprintf(line.data(), line.size(), format, arguments);
  last_library_message = line.data();
  while (!last_library_message.empty() && last_library_message.back() == '\n') last_library_message.pop_back();
  io::log_debug("libfuse: {}", last_library_message);
}

// Commas and backslashes end or escape an option in the text that the mount helpers parse.
std::string escape_option(const std::string& value) {
  std::string escaped;
  for (const char letter : value) {
    if (letter == ',' || letter == '\\') escaped.push_back('\\');
    escaped.push_back(letter);
  }
  return escaped;
}

std::string option_list(const ChannelOptions& options) {
  std::string list = "ro,nosuid,nodev,default_permissions,subtype=" + std::string(kSubtype);
  list += ",fsname=" + escape_option(options.source_name);
  if (options.allow_other) list += ",allow_other";
  return list;
}

// What is written to stderr while this lives: fusermount3, which the library starts, says there why it refuses. It goes
// on to stderr afterwards, since other threads may write there, too.
class HeardErrors {
 public:
  HeardErrors() : before_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)), heard_(::memfd_create("stderr", MFD_CLOEXEC)) {
    if (before_.valid() && heard_.valid()) ::dup2(heard_.get(), STDERR_FILENO);
  }
  ~HeardErrors() {
    if (!before_.valid() || !heard_.valid()) return;
    ::dup2(before_.get(), STDERR_FILENO);
    const std::string all = text();
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, all.data(), all.size());
  }
  HeardErrors(const HeardErrors&) = delete;
  HeardErrors& operator=(const HeardErrors&) = delete;

  // The line of fusermount3; empty: it said nothing.
  [[nodiscard]] std::string reason() const {
    const std::string all = text();
    const std::size_t start = all.find("fusermount");
    return start == std::string::npos ? "" : all.substr(start, all.find('\n', start) - start);
  }

 private:
  [[nodiscard]] std::string text() const {
    std::array<char, 4096> room = {};  // it says one line
    const ssize_t count = ::pread(heard_.get(), room.data(), room.size(), 0);
    return {room.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }
  const io::UniqueFd before_;
  const io::UniqueFd heard_;
};

io::Error mount_error(const std::string& mountpoint, bool allow_other, const std::string& reason) {
  io::Error error{ErrorCode::kPermission, 0, "mount " + mountpoint};
  if (::access("/dev/fuse", F_OK) != 0) {
    error = {
        ErrorCode::kUnsupported, 0,
        "mount " + mountpoint +
            ": no /dev/fuse; modprobe fuse (as root); in Docker: docker run --device /dev/fuse --cap-add SYS_ADMIN"};
  } else if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    error = {ErrorCode::kPermission, 0,
             "mount " + mountpoint + ": this user may not open /dev/fuse (as root: chmod 0666 /dev/fuse)"};
  } else if (allow_other && reason.find("user_allow_other") != std::string::npos) {
    error.context += ": --allow-other needs user_allow_other in /etc/fuse.conf";
  } else if (reason.find("could not determine username") != std::string::npos) {
    error.context += fmt::format(
        ": fusermount3 mounts for no user without a name, and user {0} has none (as root: echo "
        "'headrace:x:{0}:{0}::/:/usr/sbin/nologin' >> /etc/passwd)",
        ::getuid());
  } else if (!reason.empty()) {
    error.context += ": " + reason;
  } else if (!last_library_message.empty()) {
    error.context += ": " + last_library_message;
  }
  return error;
}

// libfuse 3.14 frees the copy of the mount point's name in fuse_session_unmount() only, which would also unmount. The
// leak sanitizer is not told of what is allocated here, because a suppression makes it read all debug information.
int mount_session(fuse_session& session, const std::string& mountpoint) {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler disabler;
#endif
  return fuse_session_mount(&session, mountpoint.c_str());
}

// The library mounts only together with a session of its own; that one is thrown away and its descriptor kept.
Result<int> mount_and_take_descriptor(const std::string& mountpoint, const ChannelOptions& options) {
  fuse_set_log_func(keep_library_message);
  last_library_message.clear();
  const std::string option_text = option_list(options);
  std::array<const char*, 3> words = {"headrace", "-o", option_text.c_str()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  const fuse_lowlevel_ops no_operations = {};
  const std::unique_ptr<fuse_session, decltype(&fuse_session_destroy)> session(
      fuse_session_new(&arguments, &no_operations, sizeof(no_operations), nullptr), &fuse_session_destroy);
  fuse_opt_free_args(&arguments);
  if (!session) return io::make_error(ErrorCode::kSystem, "libfuse session: " + last_library_message);
  std::optional<HeardErrors> heard;
  if (::geteuid() != 0) heard.emplace();  // root mounts without fusermount3
  if (mount_session(*session, mountpoint) != 0) {
    return tl::unexpected(mount_error(mountpoint, options.allow_other, heard ? heard->reason() : ""));
  }
  const int fd = ::fcntl(fuse_session_fd(session.get()), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return io::system_error(errno, "duplicate the descriptor of /dev/fuse");
  return fd;
}

std::string device_of(const std::filesystem::path& path) {
  const std::vector<MountEntry> mounts = mounts_at(path);
  return mounts.empty() ? std::string() : mounts.back().device;
}

// -1: see errno.
int make_catalog_memory() {
  return ::memfd_create("headrace-catalog", MFD_CLOEXEC);
}

// -1: see errno.
int make_scratch_file(const std::filesystem::path& folder) {
  const int fd = folder.empty() ? -1 : ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  return fd >= 0 ? fd : make_catalog_memory();
}

Result<std::size_t> read_init(int fd, std::span<std::byte> buffer) {
  ssize_t count = 0;
  do {
    count = ::read(fd, buffer.data(), buffer.size());
  } while (count < 0 && (errno == EINTR || errno == ENOENT));  // ENOENT: the request was withdrawn
  if (count < static_cast<ssize_t>(sizeof(fuse_in_header))) {
    return io::system_error(count < 0 ? errno : EPROTO, "read the first request of the kernel");
  }
  return static_cast<std::size_t>(count);
}

}  // namespace

Channel::~Channel() {
  close();
}

Channel::Channel(Channel&& other) noexcept {
  *this = std::move(other);
}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
    device_ = std::move(other.device_);
    serves_others_ = other.serves_others_;
    shared_fd_ = std::exchange(other.shared_fd_, -1);
    shared_ = std::exchange(other.shared_, nullptr);
    request_log_ = std::exchange(other.request_log_, nullptr);
    catalog_fds_ = std::exchange(other.catalog_fds_, {-1, -1});
    takeover_fds_ = std::exchange(other.takeover_fds_, {-1, -1});
    catalog_memory_fds_ = std::exchange(other.catalog_memory_fds_, {-1, -1});
    scratch_folder_ = std::move(other.scratch_folder_);
    takeovers_ = std::exchange(other.takeovers_, {});
  }
  return *this;
}

void Channel::hang_up() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Channel::close() {
  hang_up();
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
  shared_ = nullptr;
  for (std::span<std::byte>& mapped : takeovers_) {
    if (!mapped.empty()) ::munmap(mapped.data(), mapped.size());
    mapped = {};
  }
  for (int* fd : {&shared_fd_, &catalog_fds_[0], &catalog_fds_[1], &takeover_fds_[0], &takeover_fds_[1],
                  &catalog_memory_fds_[0], &catalog_memory_fds_[1]}) {
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
  }
  request_log_.reset();
}

Status Channel::share_memory(const ChannelOptions& options) {
  shared_fd_ = ::memfd_create("headrace-channel", MFD_CLOEXEC);
  const auto bytes = static_cast<off_t>(kRequestLogOffset + RequestLog::memory_bytes());
  if (shared_fd_ < 0 || ::ftruncate(shared_fd_, bytes) != 0) return io::system_error(errno, "memory for the channel");
  HEADRACE_TRY_DO(map_shared());
  for (int& fd : takeover_fds_) {
    fd = ::memfd_create("headrace-takeover", MFD_CLOEXEC);
    if (fd < 0) return io::system_error(errno, "memory for the channel");
  }
  for (int& fd : catalog_fds_) {
    fd = make_scratch_file(options.scratch_folder);
    if (fd < 0) return io::system_error(errno, "memory for the channel");
  }
  for (int& fd : catalog_memory_fds_) {
    fd = make_catalog_memory();
    if (fd < 0) return io::system_error(errno, "memory for the channel");
  }
  scratch_folder_ = options.scratch_folder;
  return {};
}

// A memfd is zero at first, which is what Shared begins with.
Status Channel::map_shared() {
  static_assert(sizeof(Shared) <= kRequestLogOffset);
  static_assert(std::is_trivially_destructible_v<Shared> && std::atomic<bool>::is_always_lock_free);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd_, 0);
  if (memory == MAP_FAILED) return io::system_error(errno, "memory for the channel");
  shared_ = static_cast<Shared*>(memory);
  HEADRACE_TRY(log, RequestLog::open(shared_fd_, kRequestLogOffset));
  request_log_ = std::move(log);
  return {};
}

ChannelParts Channel::parts() const {
  return {fd_, shared_fd_, catalog_fds_, takeover_fds_, catalog_memory_fds_, path_, device_, serves_others_};
}

Result<Channel> Channel::take_over(const ChannelParts& parts) {
  Channel channel;
  channel.fd_ = parts.fd;
  channel.shared_fd_ = parts.shared_fd;
  channel.catalog_fds_ = parts.catalog_fds;
  channel.takeover_fds_ = parts.takeover_fds;
  channel.catalog_memory_fds_ = parts.catalog_memory_fds;
  for (int& fd : channel.catalog_memory_fds_) {
    if (fd < 0) fd = make_catalog_memory();
  }
  channel.path_ = parts.path;
  channel.device_ = parts.device;
  channel.serves_others_ = parts.serves_others;
  for (const int fd :
       {channel.fd_, channel.shared_fd_, channel.catalog_fds_[0], channel.catalog_fds_[1], channel.takeover_fds_[0],
        channel.takeover_fds_[1], channel.catalog_memory_fds_[0], channel.catalog_memory_fds_[1]}) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return io::system_error(errno, "a channel that was handed over");
  }
  HEADRACE_TRY_DO(channel.map_shared());
  return channel;
}

std::uint64_t Channel::generation() const {
  return shared_->generation.load();
}

std::size_t Channel::slot() const {
  return generation() % catalog_fds_.size();
}

int Channel::catalog_fd_in(std::size_t slot) const {
  if (shared_->has_catalog_in_memory[slot].load()) return catalog_memory_fds_[slot];
  return shared_->has_catalog[slot].load() ? catalog_fds_[slot] : -1;
}

int Channel::catalog_fd() const {
  return catalog_fd_in(slot());
}

int Channel::catalog_before_fd() const {
  return generation() > 0 ? catalog_fd_in(1 - slot()) : -1;
}

// Nobody finds the catalog before show_catalog(). Written anew from its beginning, a file would keep what lies behind a
// shorter catalog.
Status Channel::save_catalog(const cache::Catalog& catalog, std::size_t slot) {
  shared_->has_catalog[slot].store(false);
  shared_->has_catalog_in_memory[slot].store(false);
  for (const int fd : {catalog_fds_[slot], catalog_memory_fds_[slot]}) {
    if (::ftruncate(fd, 0) != 0) return io::system_error(errno, "memory for the channel");
  }
  const Status saved = catalog.save_fd(catalog_fds_[slot]);
  if (saved) return {};
  [[maybe_unused]] const int emptied = ::ftruncate(catalog_fds_[slot], 0);  // others need the room
  return catalog.save_fd(catalog_memory_fds_[slot]);
}

void Channel::show_catalog(std::size_t slot) {
  struct stat memory {};
  const bool in_memory = ::fstat(catalog_memory_fds_[slot], &memory) == 0 && memory.st_size > 0;
  (in_memory ? shared_->has_catalog_in_memory : shared_->has_catalog)[slot].store(true);
}

Status Channel::keep_catalog(const cache::Catalog& catalog) {
  HEADRACE_TRY_DO(save_catalog(catalog, slot()));
  show_catalog(slot());
  return {};
}

std::string Channel::catalog_fallback() const {
  if (!shared_->has_catalog_in_memory[slot()].load()) return {};
  const std::string folder =
      scratch_folder_.empty() ? "the cache folder" : "the cache folder " + scratch_folder_.string();
  return folder +
         " has no room: the catalog takes memory, and the next mount lists the source anew; make room there, or "
         "name another folder with HEADRACE_CACHE_DIR";
}

namespace {

// Never makes the file shorter: a process with another catalog is refused in a moment, and the one before it goes on.
Status map_again(int fd, std::size_t bytes, std::span<std::byte>& mapped) {
  if (!mapped.empty()) ::munmap(mapped.data(), mapped.size());
  mapped = {};
  struct stat file {};
  const bool is_short = ::fstat(fd, &file) != 0 || file.st_size < static_cast<off_t>(bytes);
  if (is_short && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return io::system_error(errno, "memory for the channel");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return io::system_error(errno, "memory for the channel");
  mapped = {static_cast<std::byte*>(memory), bytes};
  return {};
}

}  // namespace

Result<std::span<std::byte>> Channel::takeover_memory(std::size_t bytes) {
  HEADRACE_TRY_DO(map_again(takeover_fds_[slot()], bytes, takeovers_[slot()]));
  return takeovers_[slot()];
}

Result<std::span<std::byte>> Channel::make_next(const cache::Catalog& catalog, std::size_t memory_bytes) {
  const std::size_t next = 1 - slot();
  if (::ftruncate(takeover_fds_[next], 0) != 0) return io::system_error(errno, "memory for the channel");
  HEADRACE_TRY_DO(save_catalog(catalog, next));
  HEADRACE_TRY_DO(map_again(takeover_fds_[next], memory_bytes, takeovers_[next]));
  return takeovers_[next];
}

void Channel::begin_next() {
  show_catalog(1 - slot());
  shared_->generation.fetch_add(1);
}

std::span<const std::byte> Channel::init_request() const {
  return {shared_->init.data(), shared_->init_bytes};
}
bool Channel::init_answered() const {
  return shared_->init_answered.load();
}
void Channel::set_init_answered() {
  shared_->init_answered.store(true);
}

Result<Channel> open_channel(const ChannelOptions& options) {
  HEADRACE_TRY(path, resolve_mount_point(options.mountpoint));
  HEADRACE_TRY_DO(check_mount_point(path, options));
  Channel channel;
  HEADRACE_TRY_DO(channel.share_memory(options));
  HEADRACE_TRY(fd, mount_and_take_descriptor(path.string(), options));
  channel.fd_ = fd;
  channel.serves_others_ = options.allow_other;
  channel.device_ = device_of(path);
  channel.path_ = std::move(path);
  Result<std::size_t> init = read_init(channel.fd_, channel.shared_->init);
  if (!init) {
    const Status ignored = unmount(channel);  // the first failure is the one to report
    return io::forward_error(std::move(init));
  }
  channel.shared_->init_bytes = *init;
  return channel;
}

Status unmount(const Channel& channel) {
  return unmount_device(channel.path(), channel.device(), channel.fd());
}

}  // namespace headrace::fuse
