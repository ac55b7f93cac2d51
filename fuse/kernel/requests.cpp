// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 312
#include "headrace/fuse/kernel/requests.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "headrace/cache/chunk.h"
#include "headrace/fuse/kernel/session.h"
#include "headrace/io/page_bytes.h"

namespace headrace::fuse {
using cache::Catalog;
using cache::EntryId;
using io::Result;

namespace {

// The default of 12 stalls mounts with many readers, because READs of readahead count against it.
constexpr unsigned kMaxBackground = 1024;
constexpr std::uint64_t kBlockBytes = 4096;
// One READ brings so much; of a larger file nobody knows which part is wanted.
constexpr std::uint64_t kLookAheadBytesMax = 1 << 20;
// As many as there are readers on a node of eight devices: 8 MiB of memory at most.
constexpr unsigned kLookAheadsMax = 8;

Requests& requests_of(fuse_req_t request) {
  return *static_cast<Requests*>(Session::of(request).handler());
}
const Catalog& catalog_of(fuse_req_t request) {
  return requests_of(request).catalog();
}

bool is_known(const Requests& requests, fuse_ino_t inode) {
  return requests.inodes().is_current(inode);
}

struct Attributes {
  struct stat status {};
  double valid_seconds = 0;
};

Attributes attributes_of(const Requests& requests, std::uint64_t inode, const cache::Identity& identity) {
  const Catalog& catalog = requests.catalog();
  const EntryId entry = requests.entry_of(inode);
  const auto [shared, valid_seconds] = requests.attributes(entry);
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t seconds = identity.mtime_ns / kSecond;
  std::int64_t nanoseconds = identity.mtime_ns % kSecond;
  if (nanoseconds < 0) {  // before 1970
    seconds -= 1;
    nanoseconds += kSecond;
  }
  struct stat attributes {};
  attributes.st_ino = inode;
  attributes.st_mode = shared.mode;
  attributes.st_uid = shared.uid;
  attributes.st_gid = shared.gid;
  attributes.st_nlink = catalog.is_directory(entry) ? 2 + catalog.subdirectory_count(entry) : 1;
  attributes.st_size = static_cast<off_t>(identity.size_bytes);
  attributes.st_blocks = static_cast<blkcnt_t>((identity.size_bytes + 511) / 512);
  attributes.st_blksize = static_cast<blksize_t>(kBlockBytes);
  attributes.st_mtim = {.tv_sec = seconds, .tv_nsec = nanoseconds};
  attributes.st_ctim = attributes.st_mtim;
  attributes.st_atim = attributes.st_mtim;
  return {attributes, valid_seconds};
}

// Attributes of the version that the number stands for: the kernel would give those who have the old version open the
// size of the new one. Where the file changes just now, the kernel is told right after this.
fuse_entry_param entry_parameters(const Requests& requests, EntryId entry) {
  const std::uint64_t inode = requests.inodes().of(entry);
  fuse_entry_param parameters = {};
  parameters.ino = inode;
  const cache::Identity identity = requests.inodes().version_of_file(inode).value_or(requests.identity(entry));
  const auto [attributes, valid_seconds] = attributes_of(requests, inode, identity);
  parameters.attr = attributes;
  parameters.attr_timeout = valid_seconds;
  parameters.entry_timeout = requests.valid_seconds();
  return parameters;
}

void set_up(void* userdata, fuse_conn_info* connection) {
  const auto& requests = *static_cast<const Requests*>(static_cast<const Session*>(userdata)->handler());
  // Not 0, which less than a page comes to: the kernel would ask for the pages of one read one by one.
  if (!requests.reads_ahead()) connection->max_readahead = static_cast<unsigned>(io::page_bytes());
  const unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_READDIRPLUS | FUSE_CAP_CACHE_SYMLINKS |
                          FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_ASYNC_DIO;
  connection->want = connection->capable & wanted;  // without AUTO_INVAL_DATA, which would override EXPLICIT_INVAL_DATA
  connection->max_write = kMaxWriteBytes;
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground * 3 / 4;
}

void look_up(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const Catalog& catalog = catalog_of(request);
  if (!is_known(requests_of(request), parent)) {
    fuse_reply_err(request, ESTALE);
    return;
  }
  if (std::strlen(name) > NAME_MAX) {  // the kernel lets FUSE have 1024
    fuse_reply_err(request, ENAMETOOLONG);
    return;
  }
  fuse_entry_param parameters = {};
  // Inode 0: "no such name", which the kernel may remember too.
  parameters.entry_timeout = requests_of(request).valid_seconds();
  Requests& requests = requests_of(request);
  Session& session = Session::of(request);
  const auto entry = catalog.find(requests.entry_of(parent), name);
  if (entry) parameters = entry_parameters(requests, *entry);
  const bool fetch = entry && catalog.is_file(*entry) && requests.expects_read(*entry);
  fuse_reply_entry(request, &parameters);
  if (entry) requests.tell_looked_up(*entry, parameters.ino);
  if (fetch) requests.look_ahead(session, *entry);
}

void get_attributes(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  const Requests& requests = requests_of(request);
  const std::optional<cache::Identity> identity = requests.inodes().version_of_file(inode);
  if (!identity) {
    fuse_reply_err(request, ESTALE);
    return;
  }
  const auto [attributes, valid_seconds] = attributes_of(requests, inode, *identity);
  fuse_reply_attr(request, &attributes, valid_seconds);
}

void read_link(fuse_req_t request, fuse_ino_t inode) {
  const Catalog& catalog = catalog_of(request);
  const EntryId entry = requests_of(request).entry_of(inode);
  if (!is_known(requests_of(request), inode) || !catalog.is_symlink(entry)) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  fuse_reply_readlink(request, std::string(catalog.symlink_target(entry)).c_str());
}

// The answer that makes the kernel stop asking: OPEN, OPENDIR.
void refuse(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
  fuse_reply_err(request, ENOSYS);
}

void read_file(fuse_req_t request, fuse_ino_t inode, std::size_t length, off_t offset, fuse_file_info* file) {
  Requests& requests = requests_of(request);
  if (!requests.inodes().version_of_file(inode)) {
    fuse_reply_err(request, ESTALE);
    return;
  }
  if (!requests.catalog().is_file(requests.entry_of(inode)) || offset < 0) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  const bool past_page_cache = (file->flags & O_DIRECT) != 0;
  requests.read(request, inode, {static_cast<std::uint64_t>(offset), length, past_page_cache});
}

// Offset 0 is ".", 1 is "..", then come the children in the catalog's order. The offset behind a child is its name's
// number and this, so that who is in the middle of a folder goes on behind the same name in another catalog.
constexpr std::uint64_t kBehindParent = 2;

// Which child comes after that offset. A name that has gone lay behind the one whose number is the next smaller one.
EntryId child_after(const Requests& requests, const Catalog::Range& children, std::uint64_t offset) {
  if (offset == kBehindParent) return children.first;
  const EntryId end = children.first + children.count;
  const auto number = static_cast<NameNumber>(offset - kBehindParent);
  const EntryId last = requests.entry_of(number);
  if (last >= children.first && last < end) return last + 1;  // not: kNoEntry
  EntryId next = children.first;
  NameNumber before = 0;
  for (EntryId child = children.first; child < end; ++child) {
    const NameNumber each = requests.inodes().name_number(child);
    if (each > number || each < before) continue;
    before = each;
    next = child + 1;
  }
  return next;
}

struct DirectoryPosition {
  EntryId entry;
  std::string name;  // the names of a catalog do not end with a zero byte
  std::uint64_t next_offset;
};

// Appends one entry; returns how many bytes it takes: more than `room` when it did not fit.
std::size_t add_entry(fuse_req_t request, std::span<char> room, const DirectoryPosition& position,
                      bool with_attributes) {
  const Requests& requests = requests_of(request);
  const auto offset = static_cast<off_t>(position.next_offset);
  if (!with_attributes) {  // of which the number and the kind are told, and the source is not asked for others
    struct stat kind {};
    kind.st_ino = requests.inodes().of(position.entry);
    kind.st_mode = requests.catalog().attributes(position.entry).mode;
    return fuse_add_direntry(request, room.data(), room.size(), position.name.c_str(), &kind, offset);
  }
  fuse_entry_param parameters = entry_parameters(requests, position.entry);
  if (position.next_offset <= kBehindParent) parameters.ino = 0;  // "." and "..": no lookup is counted for them
  return fuse_add_direntry_plus(request, room.data(), room.size(), position.name.c_str(), &parameters, offset);
}

void list(fuse_req_t request, fuse_ino_t inode, std::size_t room, off_t offset, bool with_attributes) {
  const Requests& requests = requests_of(request);
  const Catalog& catalog = requests.catalog();
  const EntryId directory = requests.entry_of(inode);
  if (!is_known(requests, inode) || !catalog.is_directory(directory) || offset < 0) {
    fuse_reply_err(request, ENOTDIR);
    return;
  }
  std::vector<char> buffer(room);
  std::span<char> left = buffer;
  const auto add = [&](const DirectoryPosition& position) {
    const std::size_t entry_bytes = add_entry(request, left, position, with_attributes);
    if (entry_bytes > left.size()) return false;
    left = left.subspan(entry_bytes);
    return true;
  };
  const auto from = static_cast<std::uint64_t>(offset);
  bool fits = from > 0 || add({directory, ".", 1});
  fits = fits && (from > 1 || add({catalog.parent(directory), "..", kBehindParent}));
  const Catalog::Range children = catalog.children(directory);
  const EntryId end = children.first + children.count;
  for (EntryId child = child_after(requests, children, std::max(from, kBehindParent)); fits && child < end; ++child) {
    fits = add({child, std::string(catalog.name(child)), kBehindParent + requests.inodes().name_number(child)});
  }
  fuse_reply_buf(request, buffer.data(), buffer.size() - left.size());
}

void read_directory(fuse_req_t request, fuse_ino_t inode, std::size_t room, off_t offset, fuse_file_info*) {
  list(request, inode, room, offset, false);
}

void read_directory_plus(fuse_req_t request, fuse_ino_t inode, std::size_t room, off_t offset, fuse_file_info*) {
  list(request, inode, room, offset, true);
}

void file_system_status(fuse_req_t request, fuse_ino_t) {
  const Requests& requests = requests_of(request);
  struct statvfs status {};
  status.f_bsize = kBlockBytes;
  status.f_frsize = kBlockBytes;
  status.f_blocks = (requests.file_bytes() + kBlockBytes - 1) / kBlockBytes;
  status.f_files = requests.catalog().entry_count();
  status.f_namemax = NAME_MAX;
  fuse_reply_statfs(request, &status);
}

std::uint64_t sum_of_files(const Catalog& catalog) {
  std::uint64_t sum = 0;
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (catalog.is_file(entry)) sum += catalog.size_bytes(entry);
  }
  return sum;
}

}  // namespace

Requests::Requests(cache::Store& store, std::shared_ptr<Inodes> inodes, bool serves_others,
                   std::function<void(EntryId, const ReadRange&)> on_read, std::function<bool(EntryId)> lacks,
                   double valid_seconds)
    : store_(store),
      inodes_(std::move(inodes)),
      serves_others_(serves_others),
      valid_seconds_(valid_seconds),
      catalog_(store.catalog()),
      on_read_(std::move(on_read)),
      lacks_(std::move(lacks)),
      file_bytes_(sum_of_files(catalog_)) {}

// What is not listed libfuse answers with ENOSYS: most the kernel then never asks again (FLUSH, GETXATTR, LSEEK,
// ACCESS), the ioctl of CPython's open() it asks every time. Writing never gets here: the mount is read-only in the
// kernel.
const fuse_lowlevel_ops& Requests::operations() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops operations = {};
    operations.init = set_up;
    operations.lookup = look_up;
    operations.getattr = get_attributes;
    operations.readlink = read_link;
    operations.open = refuse;
    operations.read = read_file;
    operations.opendir = refuse;
    operations.readdir = read_directory;
    operations.readdirplus = read_directory_plus;
    operations.statfs = file_system_status;
    return operations;
  }();
  return table;
}

cache::Identity Requests::identity(EntryId entry) const {
  return store_.identity(entry).value_or(catalog_.identity(entry));
}

// The group's bits of a file with an ACL are the most that the ACL grants to anybody, and the others' bits do not tell
// whom it denies them. So the mount, which does not know ACLs, lets in the owner alone (and root). The source is asked
// when the kernel asks for attributes, which it keeps then. Where the source does not tell, the kernel asks again soon.
Requests::Shown Requests::attributes(EntryId entry) const {
  constexpr double kUntoldSeconds = 1;
  Shown shown{store_.attributes(entry), valid_seconds_};
  if (!serves_others_ || S_ISLNK(shown.attributes.mode)) return shown;
  const std::optional<bool> has_acl = store_.has_acl(entry);
  if (has_acl.value_or(true)) shown.attributes.mode &= ~mode_t{S_IRWXG | S_IRWXO};
  if (!has_acl) shown.valid_seconds = std::min(valid_seconds_, kUntoldSeconds);
  return shown;
}

cache::AttributeClass Requests::above_overlay(EntryId folder) const {
  if (serves_others_ || folder != cache::kRootEntry) return attributes(folder).attributes;
  return {.mode = S_IFDIR | S_IRWXU, .uid = ::geteuid(), .gid = ::getegid()};
}

bool Requests::expects_read(EntryId entry) {
  const std::uint64_t size = identity(entry).size_bytes;
  return size > 0 && size <= kLookAheadBytesMax && lacks_ && lacks_(entry) && look_ahead_.on_lookup(entry);
}

// While the reader takes the answer to its look-up, opens the file and asks, the bytes are on their way. They stay in
// the store's memory as long as that has room, pinned by nobody. Who reads goes first: nothing is begun while readers
// keep the threads busy.
void Requests::look_ahead(Session& session, EntryId entry) {
  const Session::Wait wait(session);
  if (!wait.granted()) return;
  if (looking_ahead_.fetch_add(1) >= kLookAheadsMax) {
    looking_ahead_.fetch_sub(1);
    return;
  }
  store_.read_async(
      entry, [this, session = session.shared_from_this()](const Result<cache::View>&) { looking_ahead_.fetch_sub(1); },
      cache::ReadHint::kAheadHere);
}

void Requests::read(fuse_req* request, std::uint64_t inode, ReadRange range) {
  const EntryId entry = entry_of(inode);
  const cache::Identity known = identity(entry);
  // A number of before: the bytes may be the same all the same, but in a file of another size they are not.
  const std::optional<cache::Identity> shown = inodes_->version_of_file(inode);
  if (!shown || shown->size_bytes != known.size_bytes) {
    refuse_read(request, ESTALE);
    return;
  }
  const std::uint64_t size = known.size_bytes;
  if (range.offset >= size) {
    fuse_reply_buf(request, nullptr, 0);
    return;
  }
  const std::uint64_t length = std::min(range.length, size - range.offset);
  if (!range.past_page_cache) on_read_(entry, {.offset = range.offset, .length = length});
  look_ahead_.on_read(entry);
  {
    io::MutexLock lock(mutex_);
    ++reads_in_flight_;
  }
  const ReadRange part{.offset = range.offset, .length = length};
  const bool asks = answer_read_ && inodes_->stands_for(inode, known) &&
                    (asked_about_ == Asked::kAllFiles || cache::is_chunked(size));
  if (asks && !range.past_page_cache) {
    // The session lives until its last request is answered, whatever becomes of the mount meanwhile.
    const Answer answer = [this, request, inode, known, part, session = Session::of(request).shared_from_this(),
                           arrived = std::chrono::steady_clock::now()](std::span<const std::byte> bytes) {
      if (bytes.empty()) return read_in_store(request, inode, known, part, cache::ReadHint::kNow);
      answer_bytes(request, inode, bytes, {});
      end_read(std::chrono::steady_clock::now() - arrived);
    };
    if (answer_read_(inode, known, part, answer)) return;
  }
  // By this thread itself, where another stays for requests.
  const Session::Wait wait(Session::of(request));
  read_in_store(request, inode, known, part, wait.granted() ? cache::ReadHint::kNowHere : cache::ReadHint::kNow);
}

void Requests::read_in_store(fuse_req* request, std::uint64_t inode, const cache::Identity& known,
                             const ReadRange& range, cache::ReadHint hint) {
  const EntryId entry = entry_of(inode);
  // A part of a file goes by range, so that the store keeps the rest for the READs that follow.
  const bool whole = range.offset == 0 && range.length == known.size_bytes;
  // The session lives until its last request is answered, whatever becomes of the mount meanwhile.
  auto done = [this, request, inode, session = Session::of(request).shared_from_this(), length = range.length,
               arrived = std::chrono::steady_clock::now()](Result<cache::View> view) {
    answer_read(request, inode, length, view);
    end_read(std::chrono::steady_clock::now() - arrived);
  };
  if (whole) {
    store_.read_async(entry, std::move(done), hint);
  } else {
    store_.read_range_async(entry, range.offset, range.length, std::move(done), hint);
  }
}

// Whether bytes of the file as it is `now` may be shown to whoever asked. It may be another version than the one that
// he has opened. But where one READ brings all of a file that is still the same one, nobody gets a mix: a touch, or
// other bytes, end no reader of a small file.
bool Requests::may_show(std::uint64_t inode, const cache::Identity& now, std::span<const std::byte> bytes,
                        std::span<const std::byte> whole) const {
  if (inodes_->give(inode, now, whole)) return true;
  const std::optional<cache::Identity> shown = inodes_->version_of_file(inode);
  return shown && now.inode == shown->inode && now.size_bytes == shown->size_bytes && bytes.size() == now.size_bytes;
}

void Requests::refuse_read(fuse_req* request, int error) {
  read_figures_.count_failure(error);
  fuse_reply_err(request, error);
}

// Runs on an I/O thread of the store, or on the thread that took the request.
void Requests::answer_read(fuse_req* request, std::uint64_t inode, std::uint64_t length,
                           const Result<cache::View>& view) {
  if (!view) return refuse_read(request, io::errno_from_error(view.error()));
  // Less than the file was known to have: it has changed. Zeroes in its place would be wrong bytes.
  if (view->bytes().size() < length) return refuse_read(request, ESTALE);
  answer_bytes(request, inode, view->bytes().first(length), view->whole_file());
}

// One writev copies from the view into the reader's pages; it never blocks.
void Requests::answer_bytes(fuse_req* request, std::uint64_t inode, std::span<const std::byte> bytes,
                            const std::optional<cache::View::WholeFile>& whole) {
  const bool may = whole ? may_show(inode, whole->identity, bytes, whole->bytes)
                         : may_show(inode, identity(entry_of(inode)), bytes, {});
  if (!may) return refuse_read(request, ESTALE);
  read_bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
  fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void Requests::end_read(std::chrono::nanoseconds waited) {
  read_figures_.count_wait(waited);
  io::MutexLock lock(mutex_);
  if (--reads_in_flight_ == 0) idle_.notify_all();
}

bool Requests::drain(std::chrono::steady_clock::time_point deadline) {
  io::MutexLock lock(mutex_);
  while (reads_in_flight_ > 0) {
    if (!idle_.wait_until(lock, deadline)) return reads_in_flight_ == 0;
  }
  return true;
}

}  // namespace headrace::fuse
