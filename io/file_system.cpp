// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/file_system.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::io {
namespace {

struct KnownFileSystem {
  std::uint64_t magic;
  const char* name;
  bool direct;  // direct reads go straight to the device
  bool in_memory;
  bool opens_wait;
  bool has_lasting_inodes = true;
};

// Numbers that linux/magic.h lacks are from statfs(2).
constexpr std::uint64_t kZfsMagic = 0x2fc12fc1;
constexpr KnownFileSystem kKnownFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4", true, false, false},
    {0x58465342, "xfs", true, false, false},
    {BTRFS_SUPER_MAGIC, "btrfs", true, false, false},
    {0xf2f52010, "f2fs", true, false, false},
    {TMPFS_MAGIC, "tmpfs", false, true, false},
    {RAMFS_MAGIC, "ramfs", false, true, false},
    {kZfsMagic, "zfs", false, false, false},
    {OVERLAYFS_SUPER_MAGIC, "overlay", false, false, false},
    {FUSE_SUPER_MAGIC, "fuse", false, false, true, false},
    {NFS_SUPER_MAGIC, "nfs", false, false, true},
    {V9FS_MAGIC, "9p", false, false, true},
    {0xff534d42, "cifs", false, false, true, false},
    {0xfe534d42, "smb2", false, false, true, false},
    {MSDOS_SUPER_MAGIC, "vfat", false, false, true, false},
    {EXFAT_SUPER_MAGIC, "exfat", false, false, true, false},
};

const KnownFileSystem* find_known(std::uint64_t magic) {
  const auto* const found =
      std::ranges::find_if(kKnownFileSystems, [magic](const KnownFileSystem& known) { return known.magic == magic; });
  return found != std::end(kKnownFileSystems) ? found : nullptr;
}

// Some architectures have a signed f_type; the magic numbers are 32 bits.
std::uint64_t magic_of(const struct statfs& about) {
  return static_cast<std::uint32_t>(about.f_type);
}

// All zero where the kernel does not say.
struct statfs statfs_of(int fd) {
  struct statfs about = {};
  if (::fstatfs(fd, &about) != 0) about = {};
  return about;
}

// f_fsid comes from the UUID on ext2, ext3, ext4 and btrfs (where subvolumes differ, too) and from the data set's
// number on zfs. xfs and f2fs put the number of the block device there, which a reboot or another loop device changes;
// tmpfs draws it anew for each mount; nfs and fuse leave it zero; overlay shows that of one layer (Linux 6.18,
// fs/*/super.c).
std::uint64_t lasting_id(const struct statfs& about) {
  const std::uint64_t magic = magic_of(about);
  if (magic != EXT4_SUPER_MAGIC && magic != BTRFS_SUPER_MAGIC && magic != kZfsMagic) return 0;
  std::uint64_t id = 0;
  static_assert(sizeof id == sizeof about.f_fsid);
  std::memcpy(&id, &about.f_fsid, sizeof id);
  return id;
}

// Whether the kernel says that direct reads of this file work at our alignment (Linux 6.1). Where it says nothing, as
// for folders and on older kernels, they are believed to work: an engine whose direct open is refused uses the page
// cache and counts it.
bool alignment_fits(int fd) {
#ifdef STATX_DIOALIGN
  struct statx about = {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0) return true;
  if ((about.stx_mask & STATX_DIOALIGN) == 0 || !S_ISREG(about.stx_mode)) return true;
  return about.stx_dio_offset_align != 0 && kBufferAlignment % about.stx_dio_offset_align == 0 &&
         kBufferAlignment % about.stx_dio_mem_align == 0;
#else
  static_cast<void>(fd);
  return true;
#endif
}

CacheMode cache_mode_for(int fd, const KnownFileSystem* known) {
  return known != nullptr && known->direct && alignment_fits(fd) ? CacheMode::kDirect : CacheMode::kBuffered;
}

// "1" in a sysfs file; a missing file reads as "0".
bool sysfs_says_yes(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char digit = '0';
  return file.valid() && ::read(file.get(), &digit, 1) == 1 && digit == '1';
}

}  // namespace

FileSystemTraits describe_file_system(int fd) {
  const struct statfs about = statfs_of(fd);
  const std::uint64_t magic = magic_of(about);
  const KnownFileSystem* const known = find_known(magic);
  FileSystemTraits traits;
  traits.name = known != nullptr ? known->name : fmt::format("{:#x}", magic);
  traits.cache_mode = cache_mode_for(fd, known);
  traits.in_memory = known != nullptr && known->in_memory;
  traits.opens_wait = known == nullptr || known->opens_wait;
  traits.has_lasting_inodes = known == nullptr || known->has_lasting_inodes;
  traits.rotational = is_rotational(fd);
  traits.id = lasting_id(about);
  return traits;
}

bool has_lasting_inodes(int fd) {
  const KnownFileSystem* const known = find_known(magic_of(statfs_of(fd)));
  return known == nullptr || known->has_lasting_inodes;
}

CacheMode choose_cache_mode(int fd) {
  return cache_mode_for(fd, find_known(magic_of(statfs_of(fd))));
}

// A partition has no queue of its own. The queue of its disk is one level up.
bool is_rotational(int fd) {
  struct stat about = {};
  if (::fstat(fd, &about) != 0 || major(about.st_dev) == 0) return false;
  const std::string device = fmt::format("/sys/dev/block/{}:{}", major(about.st_dev), minor(about.st_dev));
  return sysfs_says_yes(device + "/queue/rotational") || sysfs_says_yes(device + "/../queue/rotational");
}

std::optional<std::uint64_t> physical_offset(int fd) {
  alignas(fiemap) std::byte storage[sizeof(fiemap) + sizeof(fiemap_extent)] = {};
  auto* const map = reinterpret_cast<fiemap*>(storage);
  map->fm_length = 1;
  map->fm_extent_count = 1;
  if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents != 1) return std::nullopt;
  fiemap_extent extent = {};
  std::memcpy(&extent, storage + sizeof(fiemap), sizeof extent);
  constexpr auto kNoPlace = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_DATA_INLINE;
  if ((extent.fe_flags & kNoPlace) != 0) return std::nullopt;
  return extent.fe_physical;
}

}  // namespace headrace::io
