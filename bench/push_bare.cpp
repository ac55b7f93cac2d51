// SPDX-License-Identifier: Apache-2.0
// What the kernel alone takes to push samples into the page cache of a mount: a file system that does nothing else, and
// FUSE_NOTIFY_STORE in one system call. It bounds what push_threads can reach.
//
//   push_bare SOURCE MOUNTPOINT --threads N [--look]
//
// All files of SOURCE are read into memory first and are shown at MOUNTPOINT by number. What is timed is their way from
// there into the page cache, by N threads. --look: each file's attributes are looked at just before it is pushed, as
// they are where an eviction took them; else before the clock starts. Prints one JSON line, with the checksum of all
// files as they are read through the mount.
#define FUSE_USE_VERSION 312

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <xxhash.h>

namespace {

namespace fs = std::filesystem;

constexpr fuse_ino_t kFirstInode = FUSE_ROOT_ID + 1;  // of file 0
constexpr double kForEver = 1e6;                      // seconds

struct Options {
  std::string source;
  std::string mountpoint;
  unsigned threads = 1;
  bool look = false;
};

std::vector<std::string> files;  // their contents; constant once the mount has begun

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--threads" && i + 1 < argc) {
      options.threads = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (word == "--look") {
      options.look = true;
    } else {
      (options.source.empty() ? options.source : options.mountpoint) = word;
    }
  }
  if (options.mountpoint.empty()) throw std::runtime_error("SOURCE MOUNTPOINT are missing");
  return options;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The file system: a folder with numbered files.

struct stat attributes_of(fuse_ino_t inode) {
  struct stat status {};
  status.st_ino = inode;
  status.st_nlink = 1;
  status.st_mode = inode == FUSE_ROOT_ID ? S_IFDIR | 0555 : S_IFREG | 0444;
  if (inode != FUSE_ROOT_ID) status.st_size = static_cast<off_t>(files[inode - kFirstInode].size());
  return status;
}

void on_init(void* /*userdata*/, fuse_conn_info* connection) {
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA);
  connection->want |= FUSE_CAP_EXPLICIT_INVAL_DATA;
}

void on_lookup(fuse_req_t request, fuse_ino_t /*parent*/, const char* name) {
  std::size_t number = files.size();
  std::from_chars(name, name + std::strlen(name), number);
  if (number >= files.size()) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = kFirstInode + number;
  entry.attr = attributes_of(entry.ino);
  entry.attr_timeout = entry.entry_timeout = kForEver;
  fuse_reply_entry(request, &entry);
}

void on_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*info*/) {
  const struct stat status = attributes_of(inode);
  fuse_reply_attr(request, &status, kForEver);
}

void on_open(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* /*info*/) {
  fuse_reply_err(request, ENOSYS);  // the kernel opens files by itself from now on, and keeps their pages
}

void on_read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info* /*info*/) {
  const std::string_view content = files[inode - kFirstInode];
  const std::string_view part = content.substr(std::min(content.size(), static_cast<std::size_t>(offset)), size);
  fuse_reply_buf(request, part.data(), part.size());
}

class Mounted {
 public:
  explicit Mounted(const std::string& mountpoint) {
    fuse_lowlevel_ops operations{};
    operations.init = on_init;
    operations.lookup = on_lookup;
    operations.getattr = on_getattr;
    operations.open = on_open;
    operations.read = on_read;
    char name[] = "push_bare";
    char* arguments[] = {name, nullptr};
    fuse_args parsed = FUSE_ARGS_INIT(1, arguments);
    session_ = fuse_session_new(&parsed, &operations, sizeof operations, nullptr);
    if (session_ == nullptr || fuse_session_mount(session_, mountpoint.c_str()) != 0)
      throw std::runtime_error("cannot mount at " + mountpoint);
    serving_ = std::thread([this] { fuse_session_loop(session_); });
  }
  ~Mounted() {
    fuse_session_unmount(session_);  // which ends the loop
    serving_.join();
    fuse_session_destroy(session_);
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  // False: the kernel does not take it.
  [[nodiscard]] bool store(std::size_t number) const {
    std::string& content = files[number];
    fuse_notify_store_out store{};
    store.nodeid = kFirstInode + number;
    store.size = static_cast<std::uint32_t>(content.size());
    fuse_out_header header{};
    header.len = static_cast<std::uint32_t>(sizeof header + sizeof store + content.size());
    header.error = FUSE_NOTIFY_STORE;
    const iovec parts[] = {{&header, sizeof header}, {&store, sizeof store}, {content.data(), content.size()}};
    return ::writev(fuse_session_fd(session_), parts, 3) == static_cast<ssize_t>(header.len);
  }

 private:
  fuse_session* session_ = nullptr;
  std::thread serving_;
};

void look_at(const std::string& path) {
  struct stat ignored {};
  if (::lstat(path.c_str(), &ignored) != 0) throw std::runtime_error(path + " is not there");
}

// False: something was not pushed.
bool push_all(const Mounted& mounted, const Options& options, const std::vector<std::string>& paths) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> good = true;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.threads; ++i) {
    threads.emplace_back([&] {
      for (std::size_t number = next.fetch_add(1); number < files.size(); number = next.fetch_add(1)) {
        if (options.look) look_at(paths[number]);
        if (!mounted.store(number)) good = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return good;
}

void run(const Options& options) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(options.source)) {
    if (!entry.is_regular_file()) continue;
    files.push_back(content_of(entry.path()));
    bytes += files.back().size();
  }
  const Mounted mounted(options.mountpoint);
  std::vector<std::string> paths;
  for (std::size_t number = 0; number < files.size(); ++number)
    paths.push_back(options.mountpoint + "/" + std::to_string(number));
  if (!options.look) {
    for (const std::string& path : paths) look_at(path);
  }

  const double cpu_before = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  const bool pushed = push_all(mounted, options, paths);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double cpu = cpu_seconds() - cpu_before;
  if (!pushed) throw std::runtime_error("not all samples were pushed");
  std::uint64_t checksum = 0;
  for (const std::string& path : paths) {
    const std::string content = content_of(path);
    checksum += XXH3_64bits(content.data(), content.size());
  }
  std::printf("{\"samples\": %zu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.3f, \"xxh3\": \"%016llx\"}\n",
              files.size(), static_cast<unsigned long long>(bytes), seconds, cpu,
              static_cast<unsigned long long>(checksum));
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "push_bare: %s\n", error.what());
  return 1;
}
