// SPDX-License-Identifier: Apache-2.0
// A slow source: shows a folder read-only through FUSE and answers each open and each read late, without making other
// requests wait. That is what a network share with latency and enough parallelism looks like.
//
//   slow_fs SOURCE MOUNTPOINT [--open-ms N] [--read-ms N] [--list-ms N] [--disk-mib-s N]
//     [--allow-other] [--faults FILE] [--log FILE]
//
// --list-ms is how late the folders below the root are listed. With --disk-mib-s the bytes of all reads come one after
// the other, so many MiB a second, as from a disk. While the FILE of --faults exists, opens and reads go
// wrong as its content says: "stall" answers 5 s late, "eio" with EIO. --log writes the path of a file for each read of
// its beginning, one per line. Runs until SIGTERM, SIGINT or an unmount. The extended attribute user.slow_fs of the
// root tells, as JSON, how many opens and reads it has answered, how many bytes these asked for, and how many opens
// waited at once at most. The kernel keeps no file content from one open to the next. The tree is scanned once: it must
// not change.
#define FUSE_USE_VERSION 314
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Runs tasks when their time has come, on one thread.
class Delay {
 public:
  Delay() : thread_([this] { run(); }) { pthread_setname_np(thread_.native_handle(), "slow-replies"); }
  ~Delay() { finish(); }
  Delay(const Delay&) = delete;
  Delay& operator=(const Delay&) = delete;

  void after(std::chrono::milliseconds delay, std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push({Clock::now() + delay, number_++, std::move(task)});
    }
    changed_.notify_one();
  }

  // Runs what is left at once. Nothing may be added afterwards.
  void finish() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  struct Task {
    Clock::time_point due;
    std::uint64_t number;
    std::function<void()> work;
    bool operator<(const Task& other) const { return std::pair(due, number) > std::pair(other.due, other.number); }
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ || !tasks_.empty()) {
      if (tasks_.empty()) {
        changed_.wait(lock);
      } else if (!stopping_ && tasks_.top().due > Clock::now()) {
        const Clock::time_point due = tasks_.top().due;  // a copy: a task added meanwhile may move the queue's memory
        changed_.wait_until(lock, due);
      } else {
        const Task task = tasks_.top();
        tasks_.pop();
        lock.unlock();
        task.work();
        lock.lock();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Task> tasks_;
  std::uint64_t number_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses everything above
};

struct Node {
  fs::path path;
  struct stat attributes = {};
  fuse_ino_t parent = FUSE_ROOT_ID;
  std::map<std::string, fuse_ino_t> children = {};
};

struct Options {
  fs::path source;
  fs::path mountpoint;
  std::chrono::milliseconds open_delay{20};
  std::chrono::milliseconds read_delay{20};
  std::chrono::milliseconds list_delay{0};
  std::int64_t disk_mib_per_second = 0;  // 0: without limit
  bool allow_other = false;
  fs::path faults = {};
  fs::path log = {};
};

struct SlowFs {
  Options options;
  std::vector<Node> nodes;  // index + FUSE_ROOT_ID is the inode number
  std::atomic<std::uint64_t> opens = 0;
  std::atomic<std::uint64_t> reads = 0;
  std::atomic<std::uint64_t> read_bytes = 0;
  std::atomic<std::uint64_t> opens_waiting = 0;
  std::atomic<std::uint64_t> opens_waiting_max = 0;  // written by the one thread that takes requests
  Clock::time_point disk_is_free;                    // written by the one thread that takes requests
  std::ofstream log;                                 // written by the one thread that takes requests
  Delay delay;

  Node* find(fuse_ino_t inode) { return inode - FUSE_ROOT_ID < nodes.size() ? &nodes[inode - FUSE_ROOT_ID] : nullptr; }
};

enum class Fault : std::uint8_t { kNone, kStall, kInputOutputError };
constexpr std::chrono::milliseconds kStall{5000};

// Looked up at each request: a test switches faults on and off by making and removing a file.
Fault current_fault(const SlowFs& slow) {
  if (slow.options.faults.empty()) return Fault::kNone;
  std::ifstream stream(slow.options.faults);
  std::string word;
  stream >> word;
  return word == "stall" ? Fault::kStall : word == "eio" ? Fault::kInputOutputError : Fault::kNone;
}

std::chrono::milliseconds delay_of(Fault fault, std::chrono::milliseconds usual) {
  return fault == Fault::kStall ? usual + kStall : usual;
}

// The source does not change, so the kernel may remember names and attributes for the life of the mount.
constexpr double kTimeoutSeconds = 3600;

SlowFs& self(fuse_req_t request) {
  return *static_cast<SlowFs*>(fuse_req_userdata(request));
}

fuse_ino_t add_tree(SlowFs& slow, const fs::path& path, fuse_ino_t parent) {
  Node node = {.path = path, .parent = parent};
  if (::lstat(path.c_str(), &node.attributes) != 0) return 0;
  const fuse_ino_t inode = slow.nodes.size() + FUSE_ROOT_ID;
  node.attributes.st_ino = inode;
  slow.nodes.push_back(std::move(node));
  if (!S_ISDIR(slow.nodes.back().attributes.st_mode)) return inode;
  std::map<std::string, fuse_ino_t> children;
  for (const auto& entry : fs::directory_iterator(path)) {
    const fuse_ino_t child = add_tree(slow, entry.path(), inode);
    if (child != 0) children.emplace(entry.path().filename().string(), child);
  }
  slow.find(inode)->children = std::move(children);
  return inode;
}

void init(void* /*userdata*/, fuse_conn_info* connection) {
  // More requests in flight than any test's reader has: the delay, not the queue, is what it meets.
  connection->max_background = 1024;
  connection->congestion_threshold = 1024;
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const Node* directory = self(request).find(parent);
  const auto child = directory->children.find(name);
  fuse_entry_param entry = {};
  entry.entry_timeout = kTimeoutSeconds;
  entry.attr_timeout = kTimeoutSeconds;
  if (child != directory->children.end()) {
    entry.ino = child->second;
    entry.attr = self(request).find(child->second)->attributes;
  }
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*file*/) {
  fuse_reply_attr(request, &self(request).find(inode)->attributes, kTimeoutSeconds);
}

void readlink(fuse_req_t request, fuse_ino_t inode) {
  std::error_code error;
  const fs::path target = fs::read_symlink(self(request).find(inode)->path, error);
  error ? fuse_reply_err(request, error.value()) : fuse_reply_readlink(request, target.c_str());
}

void reply_listing(SlowFs& slow, fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset) {
  const Node* directory = slow.find(inode);
  std::vector<char> buffer(size);
  std::size_t used = 0;
  off_t position = 0;
  const auto add = [&](const char* name, fuse_ino_t child) {
    if (position++ < offset) return true;
    const std::size_t need =
        fuse_add_direntry(request, buffer.data() + used, size - used, name, &slow.find(child)->attributes, position);
    if (need > size - used) return false;
    used += need;
    return true;
  };
  bool room = add(".", inode) && add("..", directory->parent);
  for (auto child = directory->children.begin(); room && child != directory->children.end(); ++child) {
    room = add(child->first.c_str(), child->second);
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void readdir(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* /*file*/) {
  SlowFs& slow = self(request);
  const bool late = inode != FUSE_ROOT_ID && slow.options.list_delay.count() > 0;
  if (!late) return reply_listing(slow, request, inode, size, offset);
  slow.delay.after(slow.options.list_delay, [=, &slow] { reply_listing(slow, request, inode, size, offset); });
}

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file) {
  SlowFs& slow = self(request);
  if ((file->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, EROFS);
    return;
  }
  const Fault fault = current_fault(slow);
  const bool broken = fault == Fault::kInputOutputError;
  const int fd = broken ? -1 : ::open(slow.find(inode)->path.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = broken ? EIO : errno;
  ++slow.opens;
  slow.opens_waiting_max = std::max(slow.opens_waiting_max.load(), ++slow.opens_waiting);
  fuse_file_info answer = *file;
  answer.fh = static_cast<std::uint64_t>(fd);
  slow.delay.after(delay_of(fault, slow.options.open_delay), [=, &slow] {
    --slow.opens_waiting;
    if (fd < 0) {
      fuse_reply_err(request, error);
    } else if (fuse_reply_open(request, &answer) != 0) {
      ::close(fd);  // the opener gave up waiting
    }
  });
}

// Until the disk has read these bytes too, behind all that were asked for before.
std::chrono::milliseconds disk_delay(SlowFs& slow, fuse_ino_t inode, size_t size, off_t offset) {
  if (slow.options.disk_mib_per_second == 0) return {};
  const std::int64_t in_file = std::max<std::int64_t>(0, slow.find(inode)->attributes.st_size - offset);
  const std::int64_t bytes = std::min(static_cast<std::int64_t>(size), in_file);
  const Clock::time_point now = Clock::now();
  slow.disk_is_free = std::max(slow.disk_is_free, now) +
                      std::chrono::nanoseconds(bytes * 1'000'000'000 / (slow.options.disk_mib_per_second << 20));
  return std::chrono::duration_cast<std::chrono::milliseconds>(slow.disk_is_free - now);
}

void read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* file) {
  SlowFs& slow = self(request);
  if (slow.log.is_open() && offset == 0) {
    slow.log << slow.find(inode)->path.lexically_relative(slow.options.source).string() << std::endl;
  }
  const int fd = static_cast<int>(file->fh);
  ++slow.reads;
  slow.read_bytes += size;
  const Fault fault = current_fault(slow);
  const std::chrono::milliseconds delay = slow.options.read_delay + disk_delay(slow, inode, size, offset);
  slow.delay.after(delay_of(fault, delay), [=] {
    if (fault == Fault::kInputOutputError) {
      fuse_reply_err(request, EIO);
      return;
    }
    fuse_bufvec content = FUSE_BUFVEC_INIT(size);
    content.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
    content.buf[0].fd = fd;
    content.buf[0].pos = offset;
    fuse_reply_data(request, &content, FUSE_BUF_SPLICE_MOVE);
  });
}

void release(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* file) {
  ::close(static_cast<int>(file->fh));
  fuse_reply_err(request, 0);
}

void getxattr(fuse_req_t request, fuse_ino_t inode, const char* name, size_t size) {
  if (inode != FUSE_ROOT_ID || std::string_view(name) != "user.slow_fs") {
    fuse_reply_err(request, ENODATA);
    return;
  }
  const SlowFs& slow = self(request);
  const std::string counts = "{\"opens\": " + std::to_string(slow.opens) +
                             ", \"reads\": " + std::to_string(slow.reads) +
                             ", \"read_bytes\": " + std::to_string(slow.read_bytes) +
                             ", \"opens_waiting_max\": " + std::to_string(slow.opens_waiting_max) + "}";
  if (size == 0) {
    fuse_reply_xattr(request, counts.size());
  } else if (size < counts.size()) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, counts.data(), counts.size());
  }
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops result = {};
  result.init = init;
  result.lookup = lookup;
  result.getattr = getattr;
  result.readlink = readlink;
  result.readdir = readdir;
  result.open = open;
  result.read = read;
  result.release = release;
  result.getxattr = getxattr;
  return result;
}

bool parse(int argc, char** argv, Options& options) {
  std::vector<std::string_view> places;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto delay = argument == "--open-ms"   ? &options.open_delay
                       : argument == "--read-ms" ? &options.read_delay
                       : argument == "--list-ms" ? &options.list_delay
                                                 : nullptr;
    if (delay != nullptr && i + 1 < argc) {
      *delay = std::chrono::milliseconds(std::atoi(argv[++i]));
    } else if (argument == "--disk-mib-s" && i + 1 < argc) {
      options.disk_mib_per_second = std::atoi(argv[++i]);
    } else if (argument == "--faults" && i + 1 < argc) {
      options.faults = fs::absolute(argv[++i]);
    } else if (argument == "--log" && i + 1 < argc) {
      options.log = fs::absolute(argv[++i]);
    } else if (argument == "--allow-other") {
      options.allow_other = true;
    } else {
      places.push_back(argument);
    }
  }
  if (places.size() != 2) return false;
  options.source = fs::absolute(places[0]);
  options.mountpoint = fs::absolute(places[1]);
  return true;
}

int serve(SlowFs& slow) {
  std::vector<std::string> words = {"slow_fs", "-o", "ro,fsname=slow_fs,subtype=slow_fs,default_permissions"};
  if (slow.options.allow_other) words.back() += ",allow_other";
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  const fuse_lowlevel_ops table = operations();
  fuse_session* session = fuse_session_new(&arguments, &table, sizeof table, &slow);
  if (session == nullptr) return 1;
  int status = 1;
  if (fuse_set_signal_handlers(session) == 0) {
    if (fuse_session_mount(session, slow.options.mountpoint.c_str()) == 0) {
      // A signal ends the loop with its number, which is a clean end here.
      status = fuse_session_loop(session) < 0 ? 1 : 0;
      slow.delay.finish();  // replies need the session
      fuse_session_unmount(session);
    }
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  fuse_opt_free_args(&arguments);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  SlowFs slow;
  if (!parse(argc, argv, slow.options)) {
    std::fprintf(stderr,
                 "usage: slow_fs SOURCE MOUNTPOINT [--open-ms N] [--read-ms N] [--list-ms N] [--allow-other] "
                 "[--faults FILE] [--log FILE]\n");
    return 2;
  }
  try {
    if (add_tree(slow, slow.options.source, FUSE_ROOT_ID) == 0) {
      std::fprintf(stderr, "slow_fs: %s: %s\n", slow.options.source.c_str(), std::strerror(errno));
      return 1;
    }
  } catch (const fs::filesystem_error& error) {
    std::fprintf(stderr, "slow_fs: %s\n", error.what());
    return 1;
  }
  if (!slow.options.log.empty()) slow.log.open(slow.options.log, std::ios::app);
  return serve(slow);
}
