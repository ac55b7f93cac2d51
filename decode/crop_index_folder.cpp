// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/crop_index_folder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/decode/internal/jpeg_baseline.h"
#include "headrace/decode/internal/scan_index.h"
#include "headrace/io/log.h"
#include "headrace/io/own_folders.h"

namespace headrace::decode {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using io::system_error;
using io::UniqueFd;

constexpr const char* kFileName = "indexes-1";  // the number is the format's
constexpr std::size_t kSlots = 16;
// Ten in a bucket of sixteen, where the file is full of indexes of 1.6 kB.
constexpr std::uint64_t kBuckets = std::uint64_t{1} << 19;
constexpr time_t kFullForSeconds = time_t{7} * 24 * 3600;
// What a file system keeps for others: its space is looked at each time that so much was added.
constexpr std::uint64_t kSpareBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kLookForSpaceBytes = std::uint64_t{16} << 20;

bool read_all(int fd, void* out, std::size_t bytes, std::uint64_t offset) {
  return ::pread(fd, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}
bool write_all(int fd, const void* bytes, std::size_t count, std::uint64_t offset) {
  return ::pwrite(fd, bytes, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}

// For as long as it lives, unless another process has it.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(::flock(fd, LOCK_EX | LOCK_NB) == 0 ? fd : -1) {}
  ~FileLock() {
    if (held()) ::flock(fd_, LOCK_UN);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  [[nodiscard]] bool held() const { return fd_ >= 0; }

 private:
  const int fd_;
};

}  // namespace

io::Result<fs::path> own_crop_index_folder() {
  HEADRACE_TRY(folder, io::cache_directory());
  return folder / "crop-indexes";
}

ContentId content_id(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

struct CropIndexFolder::Slot {
  ContentId content;
  std::uint64_t place = 0;
  std::uint32_t length = 0;
  std::uint32_t checksum = 0;

  [[nodiscard]] std::uint32_t sum() const {
    return static_cast<std::uint32_t>(XXH3_64bits(this, sizeof *this - sizeof checksum));
  }
  [[nodiscard]] bool is_of(const ContentId& wanted) const { return content == wanted && checksum == sum(); }
  [[nodiscard]] bool is_free() const { return checksum != sum(); }
};

struct CropIndexFolder::Bucket {
  std::uint64_t place = 0;
  std::array<Slot, kSlots> slots = {};

  [[nodiscard]] Slot* of(const ContentId& content) {
    const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.is_of(content); });
    return found == slots.end() ? nullptr : &*found;
  }
  // A full bucket gives up whichever the new content says.
  [[nodiscard]] Slot& free_for(const ContentId& content) {
    const auto found = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.is_free(); });
    return found == slots.end() ? slots[content.high % kSlots] : *found;
  }
};

namespace {

constexpr std::uint64_t kSlotBytes = 32;
constexpr std::uint64_t kBucketBytes = kSlots * kSlotBytes;
constexpr std::uint64_t kTableBytes = kBuckets * kBucketBytes;
static_assert(std::endian::native == std::endian::little);

io::Status check_file_limit(std::uint64_t bytes_max, const fs::path& path) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if (limit.rlim_cur >= kTableBytes + bytes_max) return {};  // else a write would end the process (SIGXFSZ)
  return make_error(ErrorCode::kUnsupported, path.string() + " may not become large enough; raise ulimit -f");
}

io::Result<UniqueFd> open_file(const fs::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return system_error(errno, "open " + path.string());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(errno, "open " + path.string());
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    return make_error(ErrorCode::kPermission, path.string() + " is not a file of this user; remove it");
  }
  return file;
}

// Full, and for so long that what is in it may be of data sets that are gone. Full: another index may find no room. It
// need not fill the last byte.
bool is_outdated(const struct stat& status, std::uint64_t bytes_max) {
  const std::uint64_t next = std::min<std::uint64_t>(CropIndexFolder::kPackedMax, bytes_max / 4);
  return static_cast<std::uint64_t>(status.st_size) + next > kTableBytes + bytes_max &&
         ::time(nullptr) - status.st_mtim.tv_sec >= kFullForSeconds;
}

// Processes that have the file open go on with it; it is gone when they end. Of several processes that find it outdated
// at once, one removes it.
io::Result<UniqueFd> begin_anew(UniqueFd outdated, const fs::path& path) {
  {
    const FileLock lock(outdated.get());
    struct stat here {};
    struct stat there {};
    const bool same = ::fstat(outdated.get(), &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
                      here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    if (lock.held() && same) {
      io::log_info("{} is full of old indexes: it is begun anew", path.string());
      if (::unlink(path.c_str()) != 0) return system_error(errno, "remove " + path.string());
    }
  }
  return open_file(path);
}

std::uint64_t size_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

io::Result<std::unique_ptr<CropIndexFolder>> CropIndexFolder::open(const fs::path& folder, std::uint64_t bytes_max) {
  static_assert(sizeof(Slot) == kSlotBytes);
  const fs::path path = folder / kFileName;
  HEADRACE_TRY_DO(check_file_limit(bytes_max, path));
  std::error_code failure;
  fs::create_directories(folder.parent_path(), failure);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error(errno, "make " + folder.string());
  HEADRACE_TRY(file, open_file(path));
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && is_outdated(status, bytes_max)) {
    HEADRACE_TRY(fresh, begin_anew(std::move(file), path));
    file = std::move(fresh);
  }
  const std::uint64_t size = size_of(file.get());
  // Of several processes that do so at once, none makes the file shorter than another one needs it.
  if (size < kTableBytes) {
    const int error = ::posix_fallocate(file.get(), static_cast<off_t>(kTableBytes) - 1, 1);
    if (error != 0) return system_error(error, "extend " + path.string());
  }
  std::unique_ptr<CropIndexFolder> opened(new CropIndexFolder(std::move(file), bytes_max));
  opened->bytes_ = std::max(size, kTableBytes) - kTableBytes;
  return opened;
}

bool CropIndexFolder::read_bucket(const ContentId& content, Bucket& bucket) const {
  bucket.place = content.low % kBuckets * kBucketBytes;
  return read_all(file_.get(), bucket.slots.data(), kBucketBytes, bucket.place);
}

bool CropIndexFolder::read_packed(const Slot& slot, std::vector<std::byte>& packed) const {
  if (slot.length > kPackedMax) return false;
  packed.resize(slot.length);
  if (packed.empty()) return true;
  return read_all(file_.get(), packed.data(), packed.size(), slot.place) &&
         (ScanIndex::is_sound(packed, slot.content.low) || !unpack_baseline(packed, slot.content.low).empty());
}

bool CropIndexFolder::find(const ContentId& content, std::vector<std::byte>& packed) const {
  Bucket bucket;
  if (!read_bucket(content, bucket)) return false;
  const Slot* slot = bucket.of(content);
  return slot != nullptr && read_packed(*slot, packed);
}

bool CropIndexFolder::keep(const ContentId& content, std::span<const std::byte> packed) {
  io::MutexLock lock(mutex_);
  if (full_ || packed.size() > kPackedMax || ::getpid() != owner_) return false;
  const FileLock file_lock(file_.get());
  return file_lock.held() && add(content, packed);
}

bool CropIndexFolder::takes_baselines() {
  io::MutexLock lock(mutex_);
  return !full_ && bytes() < bytes_max_ / 2 && ::getpid() == owner_;
}

bool CropIndexFolder::add(const ContentId& content, std::span<const std::byte> packed) {
  Bucket bucket;
  if (!read_bucket(content, bucket)) return false;
  Slot* known = bucket.of(content);
  std::vector<std::byte> held;
  if (known != nullptr && read_packed(*known, held)) {
    const bool better = !held.empty() && (packed.empty() || held.size() < packed.size());
    if (!better) return true;
  }
  const std::uint64_t end = std::max(size_of(file_.get()), kTableBytes);
  if (!is_room_for(packed.size(), end) || !write_all(file_.get(), packed.data(), packed.size(), end)) return false;
  Slot& slot = known != nullptr ? *known : bucket.free_for(content);
  slot = {.content = content, .place = end, .length = static_cast<std::uint32_t>(packed.size())};
  slot.checksum = slot.sum();
  bytes_ = end + packed.size() - kTableBytes;
  const auto number = static_cast<std::uint64_t>(&slot - bucket.slots.data());
  return write_all(file_.get(), &slot, sizeof slot, bucket.place + number * kSlotBytes);
}

bool CropIndexFolder::is_room_for(std::size_t bytes, std::uint64_t end) {
  if (end + bytes > kTableBytes + bytes_max_) full_ = true;
  if (!full_ && end >= looked_for_space_at_ + kLookForSpaceBytes) {
    looked_for_space_at_ = end;
    struct statvfs space {};
    const bool known = ::fstatvfs(file_.get(), &space) == 0;
    full_ = known && std::uint64_t{space.f_bavail} * space.f_frsize < kSpareBytes;
  }
  if (full_) io::log_warning("no room for further indexes of JPEGs: crops of files without one decode more of them");
  return !full_;
}

}  // namespace headrace::decode
