// SPDX-License-Identifier: Apache-2.0
// How a cold tree is read fast: a folder is listed as a whole with getdents64, its entries are sorted by inode number,
// and their attributes are read in that order, in batches that all threads share. Neighbouring inodes lie in the same
// block of the inode table (ext4, xfs), so one read of the device serves many files, and the threads keep several reads
// in flight. In the order that getdents64 returns, which is hashed, the same blocks would be read again and again.
//
// Batches go before folders. So beside the folders whose batches are being read at most one folder per thread is open,
// whatever the shape of the tree.
#include "headrace/io/scanner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <iterator>
#include <memory>
#include <system_error>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "headrace/io/file_attributes.h"
#include "headrace/io/file_system.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"
#include "headrace/io/open_beneath.h"
#include "headrace/io/unique_fd.h"

namespace headrace::io {
namespace {

// 1024: a batch takes about a millisecond warm, so that a folder of 100 000 files still spreads over all threads.
constexpr std::size_t kBatchEntries = 1024;
// 256 KiB: about 8 000 entries per call; larger buffers save nothing measurable.
constexpr std::size_t kListingBytes = std::size_t{256} << 10;
// A tree full of unreadable files must not fill the log.
constexpr std::size_t kWarningsMax = 20;

struct LinuxDirent64 {
  std::uint64_t d_ino;
  std::int64_t d_off;
  std::uint16_t d_reclen;
  std::uint8_t d_type;
  char d_name[];
};

// Waits before another try: a server that restarts or a process that has too many open files needs a moment.
constexpr std::array<std::chrono::milliseconds, 2> kRetryDelays{std::chrono::milliseconds(20),
                                                                std::chrono::milliseconds(250)};
// Of a whole scan. With all of them a scan on 8 threads takes 1 s longer; a source that is away for longer is reported.
constexpr unsigned kRetriesMax = 64;

bool may_pass(int os_errno) {
  constexpr int kPassing[] = {EIO,       ESTALE,       EMFILE,    ENFILE,     ENOMEM,       EAGAIN,
                              EINTR,     ETIMEDOUT,    EREMOTEIO, ENOTCONN,   ECONNREFUSED, ECONNRESET,
                              EHOSTDOWN, EHOSTUNREACH, ENETDOWN,  ENETUNREACH};
  return std::ranges::find(kPassing, os_errno) != std::end(kPassing);
}

ScannedAttributes scanned_from(const struct statx& status, bool has_lasting_inodes) {
  const FileAttributes version = attributes_from(status);
  return {.size_bytes = version.size_bytes,
          .mtime_ns = version.mtime_ns,
          .ctime_ns = version.ctime_ns,
          .inode = has_lasting_inodes ? version.inode : 0,
          .mode = status.stx_mode,
          .uid = status.stx_uid,
          .gid = status.stx_gid};
}

dev_t device_of(const struct statx& status) {
  return makedev(status.stx_dev_major, status.stx_dev_minor);
}

// Returns 0 or an errno.
int read_status(int directory_fd, const char* name, int flags, struct statx& status) {
  flags |= AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  return ::statx(directory_fd, name, flags, STATX_BASIC_STATS, &status) == 0 ? 0 : errno;
}

// A folder whose entries are being read. Its descriptor is closed after the last batch.
struct OpenFolder {
  UniqueFd fd;
  struct statx status = {};
  bool has_lasting_inodes = true;
  std::uint32_t number = 0;
  ScannedDirectory* result = nullptr;
  std::size_t batches_left HEADRACE_GUARDED_BY(mutex) = 0;
  Mutex mutex;  // also for result->targets; an entry belongs to one batch
};

struct Batch {
  std::shared_ptr<OpenFolder> folder;
  std::size_t first = 0;
  std::size_t end = 0;
};

class TreeScanner {
 public:
  TreeScanner(UniqueFd root, dev_t device, const std::atomic<bool>* stop)
      : root_(std::move(root)),
        root_device_(device),
        root_has_lasting_inodes_(has_lasting_inodes(root_.get())),
        stop_(stop) {}

  ScannedTree run(unsigned threads);

 private:
  void work();
  [[nodiscard]] bool is_stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  void scan_folder(std::uint32_t number);
  int open_folder(OpenFolder& folder);
  [[nodiscard]] bool is_foreign_fuse(const OpenFolder& folder) const;
  int list_entries(OpenFolder& folder);
  void add_listed(OpenFolder& folder, const LinuxDirent64& listed);
  void queue_batches(const std::shared_ptr<OpenFolder>& folder);
  void read_batch(const Batch& batch);
  bool read_entry(OpenFolder& folder, ScannedEntry& entry, std::string& targets);
  bool read_target(OpenFolder& folder, ScannedEntry& entry, const char* name, std::string& targets);
  void add_directory(OpenFolder& folder, ScannedEntry& entry);
  ScannedDirectory& directory(std::uint32_t number);
  std::string path_of(std::uint32_t number);
  void skip(const std::string& path, std::string_view reason);
  void add_unreadable(const std::string& path, int os_errno);
  bool wait_to_retry(int os_errno, unsigned tries);
  std::string path_in(const OpenFolder& folder, std::string_view name);

  const UniqueFd root_;
  const dev_t root_device_;
  const bool root_has_lasting_inodes_;
  const std::atomic<bool>* const stop_;  // may be null
  std::atomic<unsigned> retries_ = 0;

  Mutex mutex_;
  CondVar changed_;
  ScannedTree tree_ HEADRACE_GUARDED_BY(mutex_);                    // a directory's content: by who scans it
  std::vector<Batch> batches_ HEADRACE_GUARDED_BY(mutex_);          // last in, first out: few folders are open
  std::vector<std::uint32_t> folders_ HEADRACE_GUARDED_BY(mutex_);  // not opened yet
  std::size_t busy_ HEADRACE_GUARDED_BY(mutex_) = 0;                // threads that may still add work
};

ScannedTree TreeScanner::run(unsigned threads) {
  {
    MutexLock lock(mutex_);
    tree_.directories.emplace_back();
    folders_.push_back(0);
  }
  std::vector<std::thread> helpers;
  try {
    for (unsigned i = 1; i < threads; ++i) {
      helpers.emplace_back([this] {
        ::pthread_setname_np(::pthread_self(), "hr-scan");
        work();
      });
    }
  } catch (const std::system_error& error) {
    log_warning("scan: {} threads instead of {}: {}", helpers.size() + 1, threads, error.what());
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  MutexLock lock(mutex_);
  return std::move(tree_);
}

void TreeScanner::work() {
  MutexLock lock(mutex_);
  while (true) {
    if (is_stopped()) {
      batches_.clear();
      folders_.clear();
    }
    if (!batches_.empty()) {
      const Batch batch = std::move(batches_.back());
      batches_.pop_back();
      ++busy_;
      lock.unlock();
      read_batch(batch);
    } else if (!folders_.empty()) {
      const std::uint32_t number = folders_.back();
      folders_.pop_back();
      ++busy_;
      lock.unlock();
      scan_folder(number);
    } else if (busy_ > 0) {
      changed_.wait(lock);
      continue;
    } else {
      changed_.notify_all();
      return;
    }
    lock.lock();
    --busy_;
  }
}

void TreeScanner::scan_folder(std::uint32_t number) {
  auto folder = std::make_shared<OpenFolder>();
  folder->number = number;
  folder->result = &directory(number);
  int error = open_folder(*folder);
  for (unsigned tries = 0; error != 0 && wait_to_retry(error, tries); ++tries) error = open_folder(*folder);
  if (error != 0) return error == ENOENT ? void() : add_unreadable(path_of(number), error);
  if (is_foreign_fuse(*folder)) return skip(path_of(number), "a FUSE mount inside the tree");
  folder->result->readable = true;
  queue_batches(folder);
}

// Opens and lists. Returns 0 or an errno.
int TreeScanner::open_folder(OpenFolder& folder) {
  const std::string path = path_of(folder.number);
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int fd = open_beneath(root_.get(), path.empty() ? "." : path.c_str(), flags);
  if (fd < 0) return -fd;
  folder.fd.reset(fd);
  if (const int error = read_status(fd, "", AT_EMPTY_PATH, folder.status); error != 0) return error;
  folder.has_lasting_inodes =
      device_of(folder.status) == root_device_ ? root_has_lasting_inodes_ : has_lasting_inodes(fd);
  folder.result->attributes = scanned_from(folder.status, folder.has_lasting_inodes);
  return is_foreign_fuse(folder) ? 0 : list_entries(folder);
}

bool TreeScanner::is_foreign_fuse(const OpenFolder& folder) const {
  struct statfs file_system = {};
  return device_of(folder.status) != root_device_ && ::fstatfs(folder.fd.get(), &file_system) == 0 &&
         file_system.f_type == FUSE_SUPER_MAGIC;
}

// Returns 0 or an errno; the folder then has no entries.
int TreeScanner::list_entries(OpenFolder& folder) {
  const auto buffer = std::make_unique<std::byte[]>(kListingBytes);
  while (true) {
    const long bytes = ::syscall(SYS_getdents64, folder.fd.get(), buffer.get(), kListingBytes);
    if (bytes == 0) break;
    if (bytes < 0) {
      const int error = errno;
      folder.result->entries.clear();
      folder.result->names.clear();
      return error;
    }
    for (long offset = 0; offset < bytes;) {
      const auto* listed = reinterpret_cast<const LinuxDirent64*>(buffer.get() + offset);
      add_listed(folder, *listed);
      offset += listed->d_reclen;
    }
  }
  std::sort(folder.result->entries.begin(), folder.result->entries.end(),
            [](const auto& a, const auto& b) { return a.attributes.inode < b.attributes.inode; });
  return 0;
}

// Until the attributes of an entry are read, its mode is the type that the listing gave, or 0 where it gave none.
void TreeScanner::add_listed(OpenFolder& folder, const LinuxDirent64& listed) {
  const std::string_view name = listed.d_name;
  if (name == "." || name == "..") return;
  std::string& names = folder.result->names;
  if (names.size() + name.size() > UINT32_MAX) {
    skip(path_in(folder, name), "the folder has more than 4 GiB of names");
    return;
  }
  ScannedEntry entry;
  entry.attributes.inode = listed.d_ino;
  entry.attributes.mode = static_cast<mode_t>(DTTOIF(listed.d_type));
  entry.name_offset = static_cast<std::uint32_t>(names.size());
  entry.name_bytes = static_cast<std::uint16_t>(name.size());
  names += name;
  folder.result->entries.push_back(entry);
}

void TreeScanner::queue_batches(const std::shared_ptr<OpenFolder>& folder) {
  const std::size_t count = folder->result->entries.size();
  const std::size_t batches = (count + kBatchEntries - 1) / kBatchEntries;
  {
    MutexLock lock(folder->mutex);
    folder->batches_left = batches;
  }
  if (batches == 1) return read_batch({folder, 0, count});
  MutexLock lock(mutex_);
  // Pushed from the end: the first batch is popped first, so that the device is read in order.
  for (std::size_t first = batches * kBatchEntries; first > 0; first -= kBatchEntries) {
    batches_.push_back({folder, first - kBatchEntries, std::min(first, count)});
  }
  if (batches > 0) changed_.notify_all();
}

void TreeScanner::read_batch(const Batch& batch) {
  OpenFolder& folder = *batch.folder;
  std::string targets;
  for (std::size_t i = batch.first; i < batch.end; ++i) {
    ScannedEntry& entry = folder.result->entries[i];
    if (is_stopped()) break;
    if (!read_entry(folder, entry, targets)) entry.attributes.mode = 0;
  }
  MutexLock lock(folder.mutex);
  std::string& all = folder.result->targets;
  for (std::size_t i = batch.first; !targets.empty() && i < batch.end; ++i) {
    folder.result->entries[i].target_offset += static_cast<std::uint32_t>(all.size());
  }
  all += targets;
  if (--folder.batches_left > 0) return;
  std::erase_if(folder.result->entries, [](const ScannedEntry& entry) {
    return entry.attributes.mode == 0 && entry.directory == kNoDirectory;
  });
}

// False: the entry is to be left out.
bool TreeScanner::read_entry(OpenFolder& folder, ScannedEntry& entry, std::string& targets) {
  if (S_ISDIR(entry.attributes.mode)) {
    add_directory(folder, entry);
    return true;
  }
  const std::string name(folder.result->name(entry));
  struct statx status = {};
  int error = read_status(folder.fd.get(), name.c_str(), 0, status);
  for (unsigned tries = 0; error != 0 && wait_to_retry(error, tries); ++tries) {
    error = read_status(folder.fd.get(), name.c_str(), 0, status);
  }
  if (error != 0) {
    if (error != ENOENT) add_unreadable(path_in(folder, name), error);
    return false;
  }
  entry.attributes = scanned_from(status, folder.has_lasting_inodes);
  if (S_ISREG(status.stx_mode)) return true;
  if (S_ISLNK(status.stx_mode)) return read_target(folder, entry, name.c_str(), targets);
  if (S_ISDIR(status.stx_mode)) {
    add_directory(folder, entry);
    return true;
  }
  skip(path_in(folder, name), "a special file");
  return false;
}

bool TreeScanner::read_target(OpenFolder& folder, ScannedEntry& entry, const char* name, std::string& targets) {
  char target[PATH_MAX];
  const ssize_t bytes = ::readlinkat(folder.fd.get(), name, target, sizeof target);
  if (bytes < 0) {
    if (errno != ENOENT) add_unreadable(path_in(folder, name), errno);
    return false;
  }
  entry.target_offset = static_cast<std::uint32_t>(targets.size());
  entry.target_bytes = static_cast<std::uint16_t>(bytes);
  targets.append(target, static_cast<std::size_t>(bytes));
  return true;
}

void TreeScanner::add_directory(OpenFolder& folder, ScannedEntry& entry) {
  entry.attributes = {};
  MutexLock lock(mutex_);
  entry.directory = static_cast<std::uint32_t>(tree_.directories.size());
  ScannedDirectory& added = tree_.directories.emplace_back();
  added.parent = folder.number;
  added.name_offset = entry.name_offset;
  added.name_bytes = entry.name_bytes;
  folders_.push_back(entry.directory);
  changed_.notify_one();
}

ScannedDirectory& TreeScanner::directory(std::uint32_t number) {
  MutexLock lock(mutex_);
  return tree_.directories[number];
}

// Relative to the root, which is "".
std::string TreeScanner::path_of(std::uint32_t number) {
  std::vector<std::string_view> names;
  {
    MutexLock lock(mutex_);
    for (const ScannedDirectory* at = &tree_.directories[number]; at->parent != kNoDirectory;) {
      const ScannedDirectory& parent = tree_.directories[at->parent];
      names.push_back(std::string_view(parent.names).substr(at->name_offset, at->name_bytes));
      at = &parent;
    }
  }
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (!path.empty()) path += '/';
    path += *name;
  }
  return path;
}

std::string TreeScanner::path_in(const OpenFolder& folder, std::string_view name) {
  const std::string path = path_of(folder.number);
  return path.empty() ? std::string(name) : path + '/' + std::string(name);
}

void TreeScanner::skip(const std::string& path, std::string_view reason) {
  std::size_t count = 0;
  {
    MutexLock lock(mutex_);
    count = ++tree_.skipped;
  }
  if (count <= kWarningsMax) log_warning("scan: {}: skipped: {}", path.empty() ? "." : path, reason);
}

void TreeScanner::add_unreadable(const std::string& path, int os_errno) {
  skip(path, std::generic_category().message(os_errno));
  MutexLock lock(mutex_);
  ++tree_.unreadable_count;
  if (tree_.unreadable.size() < kUnreadableMax) tree_.unreadable.push_back({path, os_errno});
}

// False: another try is of no use.
bool TreeScanner::wait_to_retry(int os_errno, unsigned tries) {
  if (!may_pass(os_errno) || tries >= kRetryDelays.size() || is_stopped()) return false;
  if (retries_.fetch_add(1, std::memory_order_relaxed) >= kRetriesMax) return false;
  std::this_thread::sleep_for(kRetryDelays[tries]);
  return true;
}

}  // namespace

unsigned scan_threads(const ScanOptions& options) {
  constexpr unsigned kMost = 256;  // more threads would wait for one another, not for the device
  if (options.threads != 0) return std::min(options.threads, kMost);
  // At least 8: a network share answers in parallel even where there are few cores. At most 32: disks gain nothing
  // more.
  return std::clamp(4 * std::thread::hardware_concurrency(), 8U, 32U);
}

Result<ScannedAttributes> read_attributes(int directory_fd, const std::string& path) {
  struct statx status = {};
  const int error = read_status(directory_fd, path.c_str(), 0, status);
  if (error != 0) return system_error(error, "stat " + path);
  return scanned_from(status, true);
}

Result<ScannedTree> scan_tree(int root_fd, const ScanOptions& options) {
  // Opened anew, because the caller's descriptor may be O_PATH and has a reading position of its own.
  UniqueFd root(::openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return system_error(errno, "open the source folder");
  struct statx status = {};
  if (const int error = read_status(root.get(), "", AT_EMPTY_PATH, status); error != 0) {
    return system_error(error, "stat the source folder");
  }
  const dev_t device = device_of(status);
  ScannedTree tree = TreeScanner(std::move(root), device, options.stop).run(scan_threads(options));
  if (options.stop != nullptr && options.stop->load()) return make_error(ErrorCode::kCancelled, "scan");
  if (!tree.directories[0].readable) {
    return system_error(tree.unreadable.empty() ? ENOENT : tree.unreadable[0].os_errno, "read the source folder");
  }
  if (tree.skipped > kWarningsMax) log_warning("scan: {} entries skipped in all", tree.skipped);
  return tree;
}

}  // namespace headrace::io
