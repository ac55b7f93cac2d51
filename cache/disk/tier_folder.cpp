// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/tier_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/io/log.h"
#include "headrace/io/own_folders.h"
#include "headrace/io/printable.h"
#include "headrace/io/write_all.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::UniqueFd;

constexpr const char* kLabelName = "tier";
constexpr const char* kLockName = "lock";
constexpr const char* kDataSetsName = "data-sets";
constexpr std::string_view kDraftSuffix = ".new";
constexpr std::string_view kSegmentPrefix = "segment-";
constexpr std::size_t kSegmentDigits = 8;
// 2 s: what a killed process had handed to its disk (64 MiB at most) is written by then. Its lock lasts as long.
constexpr std::chrono::milliseconds kLockWaitStep{10};
constexpr int kLockWaitSteps = 200;
constexpr std::uint64_t kDataSetsBytesMax = 1 << 20;  // thousands of data sets

std::uint64_t label_hash(const TierLabel& label) {
  return XXH3_64bits(&label, offsetof(TierLabel, hash));
}

// Another container counts its processes by itself, so that a number may be somebody else's here.
bool has_open(const std::string& pid, const struct stat& file) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + pid + "/fd", error)) {
    struct stat open = {};
    if (::stat(entry.path().c_str(), &open) == 0 && open.st_ino == file.st_ino && open.st_dev == file.st_dev)
      return true;
  }
  return false;
}

// " (headrace mount /data /mnt)": which mount or command it is; empty where that cannot be told.
std::string command_of(const std::string& pid, int lock_fd) {
  struct stat lock = {};
  if (::fstat(lock_fd, &lock) != 0 || !has_open(pid, lock)) return {};
  const UniqueFd file(::open(("/proc/" + pid + "/cmdline").c_str(), O_RDONLY | O_CLOEXEC));
  char text[160] = {};  // a line of a terminal or two
  const ssize_t bytes = file.valid() ? ::read(file.get(), text, sizeof text) : 0;
  std::string command(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  std::replace(command.begin(), command.end(), '\0', ' ');
  while (!command.empty() && command.back() == ' ') command.pop_back();
  return command.empty() ? command : " (" + io::printable(command) + ")";
}

std::string owner_of_lock(int fd) {
  char text[32] = {};
  const ssize_t bytes = ::pread(fd, text, sizeof text - 1, 0);
  std::string owner(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  while (!owner.empty() && owner.back() == '\n') owner.pop_back();
  const bool is_pid = !owner.empty() && owner.find_first_not_of("0123456789") == std::string::npos;
  return is_pid ? "process " + owner + command_of(owner, fd) : "another process";
}

// What a file was written as before it got its name.
bool is_draft(std::string_view name) {
  if (!name.ends_with(kDraftSuffix)) return false;
  name.remove_suffix(kDraftSuffix.size());
  return name == kLabelName || name == kDataSetsName || name.starts_with(kSegmentPrefix);
}

tl::unexpected<io::Error> no_tier(const std::string& path) {
  return io::make_error(ErrorCode::kNotFound, fmt::format("tier {}: this folder holds no tier", path));
}

}  // namespace

std::string segment_name(std::uint32_t number) {
  return fmt::format("segment-{:08}", number);
}
std::string segment_index_name(std::uint32_t number) {
  return segment_name(number) + ".index";
}

Result<TierFolder> TierFolder::open(const std::filesystem::path& path, std::uint64_t segment_bytes, Mode mode) {
  HEADRACE_TRY_DO(io::check_links(path, "tier " + path.string()));
  if (mode == Mode::kCreate && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int failure = errno;
    const std::filesystem::path parent = path.parent_path();
    if (failure == ENOENT && !parent.empty() && ::access(parent.c_str(), F_OK) != 0) {
      return io::make_error(ErrorCode::kNotFound,
                            fmt::format("tier {}: the folder {} does not exist; is its disk mounted? Else mkdir -p {}",
                                        path.string(), parent.string(), parent.string()));
    }
    return io::system_error(failure, "make tier " + path.string());
  }
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return io::system_error(errno, "open tier " + path.string());
  TierFolder folder(path.string(), std::move(fd), segment_bytes);
  // First: whoever owns a folder of another kind, and who may write to it, is no matter here.
  if (mode != Mode::kCreate && folder.has_no_label()) return no_tier(folder.path_);
  HEADRACE_TRY_DO(folder.check_owner());
  if (mode == Mode::kCreate) {
    HEADRACE_TRY_DO(folder.take_or_make());
    return folder;
  }
  Status labelled = folder.read_label();
  const bool removable = mode == Mode::kRemover && folder.open_file(kLabelName, O_RDONLY) &&
                         folder.open_file(kLockName, O_RDONLY);  // else it never was a tier
  if (!labelled && !removable) return io::forward_error(std::move(labelled));
  if (mode != Mode::kReadOnly) HEADRACE_TRY_DO(folder.take_lock());
  return folder;
}

bool TierFolder::is_locked(const std::filesystem::path& path) {
  const UniqueFd lock(::open((path / kLockName).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock.valid()) return false;  // whoever opens the tier finds out why
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(lock.get(), LOCK_UN);
  return false;
}

// Not left to closing: a ring lets go of its files only some time after it was closed.
TierFolder::~TierFolder() {
  if (lock_fd_.valid()) ::flock(lock_fd_.get(), LOCK_UN);
}

Status TierFolder::take_or_make() {
  auto label = open_file(kLabelName, O_RDONLY);
  const bool is_new = !label && label.error().code == ErrorCode::kNotFound;
  if (is_new && !holds_nothing_else()) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("tier {}: holds other files; give it a folder of its own", path_));
  }
  HEADRACE_TRY_DO(take_lock());
  auto read = read_label();  // anew: another process may have made it before we had the lock
  if (read || read.error().code != ErrorCode::kNotFound) return read;
  if (!is_new) io::log_info("{}", read.error().message());
  HEADRACE_TRY_DO(remove_segments());  // of an earlier format
  remove_file(kDataSetsName);
  return write_label(segment_bytes_);
}

// Nothing but what a file system's root has, or what was left of making a tier.
bool TierFolder::holds_nothing_else() const {
  const auto names = list();
  return names && std::all_of(names->begin(), names->end(), [](const std::string& name) {
           return name == "lost+found" || name == kLockName || is_draft(name);
         });
}

bool TierFolder::has_no_label() const {
  return ::faccessat(fd_.get(), kLabelName, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

Status TierFolder::check_owner() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return io::system_error(errno, "stat tier " + path_);
  if (info.st_uid != ::geteuid()) {
    return io::make_error(ErrorCode::kPermission, fmt::format("tier {}: belongs to another user", path_));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return io::make_error(ErrorCode::kPermission, fmt::format("tier {}: others may write to it (chmod 700 it)", path_));
  }
  return {};
}

Status TierFolder::take_lock() {
  auto fd = open_file(kLockName, O_RDWR | O_CREAT);
  const bool read_only = !fd && fd.error().os_errno == EROFS;
  if (read_only) fd = open_file(kLockName, O_RDONLY);
  if (!fd) return io::forward_error(std::move(fd));
  int locked = ::flock(fd->get(), LOCK_EX | LOCK_NB);
  for (int step = 0; step < kLockWaitSteps && locked != 0 && errno == EWOULDBLOCK; ++step) {
    std::this_thread::sleep_for(kLockWaitStep);
    locked = ::flock(fd->get(), LOCK_EX | LOCK_NB);
  }
  if (locked != 0) {
    if (errno != EWOULDBLOCK) return io::system_error(errno, "lock tier " + path_);
    return io::make_error(ErrorCode::kBusy, fmt::format("tier {}: in use by {}; a tier is one mount's at a time: name "
                                                        "another folder, or end that one first",
                                                        path_, owner_of_lock(fd->get())));
  }
  lock_fd_ = std::move(*fd);
  if (read_only) return {};
  const std::string pid = fmt::format("{}\n", ::getpid());
  Status written;
  if (::ftruncate(lock_fd_.get(), 0) != 0) written = io::system_error(errno, "write lock of tier " + path_);
  if (written) written = io::write_all(lock_fd_.get(), std::as_bytes(std::span(pid)), 0, path_ + "/" + kLockName);
  if (!written) io::log_info("{}; the lock holds without it", written.error().message());  // it is there for people
  return {};
}

// Nothing is lost with a tier but time: all of it can be read from the source again.
tl::unexpected<io::Error> TierFolder::unusable(ErrorCode code, std::string_view what) const {
  return io::make_error(code, fmt::format("tier {0}: {1}; \"headrace tier rm {0}\" removes it, and what it held is "
                                          "fetched from the source again",
                                          path_, what));
}

Status TierFolder::read_label() {
  auto bytes = read_file(kLabelName, sizeof(TierLabel));
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return no_tier(path_);
  if (!bytes) return io::forward_error(std::move(bytes));
  if (bytes->size() < sizeof(TierLabel)) {
    return unusable(ErrorCode::kCorrupt, "its label is cut off");
  }
  std::memcpy(&label_, bytes->data(), sizeof label_);
  if (label_.magic != TierLabel::kMagic) {
    return unusable(ErrorCode::kCorrupt, "its label is damaged, or this is not a tier of headrace");
  }
  if (label_.version > kTierVersion) {
    return unusable(ErrorCode::kUnsupported,
                    fmt::format("it has format {}, this program knows {}", label_.version, kTierVersion));
  }
  const bool sane = label_.block_bytes == kBlockBytes && label_.segment_bytes >= kBlockBytes &&
                    label_.segment_bytes % kBlockBytes == 0 && label_.segment_bytes <= (1ULL << 40);
  if (label_.hash != label_hash(label_) || !sane) {
    return unusable(ErrorCode::kCorrupt, "its label is damaged");
  }
  if (label_.version < kTierVersion) {  // its records lack what would show that a file was replaced
    return io::make_error(ErrorCode::kNotFound,
                          fmt::format("tier {}: of format {}, which an earlier version wrote; a mount fills it anew",
                                      path_, label_.version));
  }
  return {};
}

Status TierFolder::write_label(std::uint64_t segment_bytes) {
  std::random_device random;
  label_ = {};
  label_.segment_bytes = segment_bytes;
  label_.salt = static_cast<std::uint64_t>(random()) << 32 | random();
  label_.hash = label_hash(label_);
  return replace_file(kLabelName, bytes_of(label_), {}, true);
}

Result<std::vector<std::string>> TierFolder::list() const {
  UniqueFd copy(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy.valid()) return io::system_error(errno, "list tier " + path_);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy.get()), ::closedir);
  if (listing == nullptr) return io::system_error(errno, "list tier " + path_);
  static_cast<void>(copy.release());  // the listing's from here on
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {  // NOLINT(concurrency-mt-unsafe): a DIR of our own
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

Result<std::vector<std::uint32_t>> TierFolder::segment_numbers() const {
  HEADRACE_TRY(names, list());
  std::vector<std::uint32_t> numbers;
  for (const std::string& name : names) {
    if (name.size() != kSegmentPrefix.size() + kSegmentDigits || !name.starts_with(kSegmentPrefix)) continue;
    std::uint32_t number = 0;
    const char* last = name.data() + name.size();
    const auto [end, error] = std::from_chars(name.data() + kSegmentPrefix.size(), last, number);
    if (error == std::errc() && end == last) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void TierFolder::remove_drafts() const {
  const auto names = list();
  if (!names) return;
  for (const std::string& name : *names) {
    if (is_draft(name)) remove_file(name);
  }
}

Status TierFolder::remove_segments() const {
  HEADRACE_TRY(numbers, segment_numbers());
  remove_drafts();
  for (const std::uint32_t number : numbers) {
    remove_file(segment_index_name(number));  // first: an index without its segment would mislead
    remove_file(segment_name(number));
  }
  return {};
}

Result<UniqueFd> TierFolder::open_file(const std::string& name, int flags) const {
  UniqueFd fd(::openat(fd_.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return io::system_error(errno, fmt::format("open {}/{}", path_, name));
  return fd;
}

Status TierFolder::replace_file(const std::string& name, std::span<const std::byte> head,
                                std::span<const std::byte> body, bool sync) const {
  const std::string draft = name + std::string(kDraftSuffix);
  HEADRACE_TRY(fd, open_file(draft, O_WRONLY | O_CREAT | O_TRUNC));
  Status written = io::write_all(fd.get(), head, 0, draft);
  if (written) written = io::write_all(fd.get(), body, head.size(), draft);
  if (written && sync && ::fsync(fd.get()) != 0) written = io::system_error(errno, "sync " + draft);
  if (written && ::renameat(fd_.get(), draft.c_str(), fd_.get(), name.c_str()) != 0) {
    written = io::system_error(errno, "rename " + draft);
  }
  if (!written) remove_file(draft);
  return written;
}

void TierFolder::remove_file(const std::string& name) const {
  ::unlinkat(fd_.get(), name.c_str(), 0);
}

Result<std::vector<std::byte>> TierFolder::read_file(const std::string& name, std::uint64_t bytes_max) const {
  HEADRACE_TRY(fd, open_file(name, O_RDONLY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return io::system_error(errno, "stat " + name);
  std::vector<std::byte> bytes(std::min<std::uint64_t>(bytes_max, static_cast<std::uint64_t>(info.st_size)));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io::system_error(errno, "read " + name);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

Status TierFolder::remove_all() const {
  HEADRACE_TRY_DO(remove_segments());
  for (const char* name : {kDataSetsName, kLabelName, kLockName}) remove_file(name);
  return {};
}

std::vector<TierFolder::DataSetName> TierFolder::data_sets() const {
  std::vector<DataSetName> found;
  const auto bytes = read_file(kDataSetsName, kDataSetsBytesMax);
  if (!bytes) return found;
  std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    DataSetName data_set;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), data_set.key, 16);
    if (error != std::errc() || end == line.data() + line.size()) continue;
    data_set.source.assign(end + 1, line.data() + line.size());
    found.push_back(std::move(data_set));
  }
  return found;
}

Status TierFolder::add_data_set(const DataSetName& data_set) const {
  for (const DataSetName& known : data_sets()) {
    if (known.key == data_set.key) return {};
  }
  std::string name = data_set.source;
  std::replace(name.begin(), name.end(), '\n', '?');
  const std::string line = fmt::format("{:016x} {}\n", data_set.key, name);
  HEADRACE_TRY(fd, open_file(kDataSetsName, O_WRONLY | O_CREAT | O_APPEND));
  return io::write_all(fd.get(), std::as_bytes(std::span(line)), 0, kDataSetsName);
}

}  // namespace headrace::cache
