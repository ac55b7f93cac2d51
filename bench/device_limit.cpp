// SPDX-License-Identifier: Apache-2.0
// What the device can do: io_uring random reads of one large file, direct, a fixed number in flight, into registered
// buffers on huge pages.
//
//   device_limit FILE SIZES [--depth N] [--hash]
//
// --hash: what came is hashed by the same thread (XXH3), as whoever serves it from a cache on a disk has to.
// SIZES has one size in bytes per line. The reads take disjoint parts of FILE, in random order, each as long as its
// size rounded up to 4096, which is what a direct read of a file of that size costs the device. Prints one JSON line;
// "registered" is false where the limit on locked memory forbids it, which costs processor time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

// As cache/disk/segment.cpp does.
#ifdef HEADRACE_XXH_X86DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace {

constexpr std::uint64_t kAlignment = 4096;

struct Read {
  std::uint64_t offset;
  std::uint32_t length;
};

// Disjoint reads of these sizes in random order.
std::vector<Read> plan_reads(const std::string& sizes_file, std::uint64_t& content_bytes) {
  std::vector<Read> reads;
  std::uint64_t offset = 0;
  std::ifstream sizes(sizes_file);
  for (std::uint64_t size = 0; sizes >> size;) {
    const std::uint64_t length = (size + kAlignment - 1) / kAlignment * kAlignment;
    reads.push_back({offset, static_cast<std::uint32_t>(length)});
    offset += length;
    content_bytes += size;
  }
  std::shuffle(reads.begin(), reads.end(), std::mt19937_64(1));
  return reads;
}

class Buffers {
 public:
  Buffers(io_uring& ring, unsigned count, std::size_t each)
      : each_bytes_(each), bytes_((count * each + kHugePage - 1) / kHugePage * kHugePage) {
    memory_ = static_cast<char*>(std::aligned_alloc(kHugePage, bytes_));
    ::madvise(memory_, bytes_, MADV_HUGEPAGE);
    std::memset(memory_, 0, bytes_);
    const iovec whole = {memory_, bytes_};
    registered_ = io_uring_register_buffers(&ring, &whole, 1) == 0;
  }
  ~Buffers() { std::free(memory_); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  [[nodiscard]] char* at(std::size_t slot) const { return memory_ + slot * each_bytes_; }
  [[nodiscard]] bool registered() const { return registered_; }

 private:
  static constexpr std::size_t kHugePage = 2 << 20;
  const std::size_t each_bytes_;
  const std::size_t bytes_;
  char* memory_ = nullptr;
  bool registered_ = false;
};

struct Options {
  unsigned depth = 32;
  bool hash = false;
};

// Keeps `depth` reads in flight until all are done. False on the first failure.
bool run(io_uring& ring, const std::vector<Read>& reads, const Buffers& buffers, const Options& options,
         std::uint64_t& hash) {
  std::size_t next = 0;
  std::size_t done = 0;
  const auto start = [&](std::size_t slot) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    if (buffers.registered()) {
      io_uring_prep_read_fixed(sqe, 0, buffers.at(slot), reads[next].length, reads[next].offset, 0);
    } else {
      io_uring_prep_read(sqe, 0, buffers.at(slot), reads[next].length, reads[next].offset);
    }
    sqe->flags |= IOSQE_FIXED_FILE;
    // The slot to use again, and the length to compare with.
    sqe->user_data = slot << 32 | reads[next].length;
    ++next;
  };
  while (next < std::min<std::size_t>(options.depth, reads.size())) start(next);
  while (done < reads.size()) {
    io_uring_submit_and_wait(&ring, 1);
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring, &cqe) == 0) {
      const std::uint64_t data = cqe->user_data;
      if (cqe->res != static_cast<int>(data & UINT32_MAX)) {
        std::fprintf(stderr, "device_limit: a read returned %d\n", cqe->res);
        return false;
      }
      io_uring_cqe_seen(&ring, cqe);
      if (options.hash) hash += XXH3_64bits(buffers.at(data >> 32), data & UINT32_MAX);
      ++done;
      if (next < reads.size()) start(data >> 32);
    }
  }
  return true;
}

double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// False: they make no sense.
bool parse(int argc, char** argv, Options& options) {
  for (int i = 3; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--hash") {
      options.hash = true;
    } else if (word == "--depth" && i + 1 < argc) {
      options.depth = static_cast<unsigned>(std::atoi(argv[++i]));
    } else {
      return false;
    }
  }
  return argc >= 3 && options.depth > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: device_limit FILE SIZES [--depth N] [--hash]\n");
    return 2;
  }
  const unsigned depth = options.depth;
  const int fd = ::open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC);
  io_uring ring = {};
  if (fd < 0 || io_uring_queue_init(depth, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) != 0 ||
      io_uring_register_files(&ring, &fd, 1) != 0) {
    std::perror("device_limit");
    return 1;
  }
  std::uint64_t content_bytes = 0;
  const std::vector<Read> reads = plan_reads(argv[2], content_bytes);
  std::uint32_t longest = 0;
  for (const Read& read : reads) longest = std::max(longest, read.length);
  const Buffers buffers(ring, depth, longest);

  const double cpu_before = cpu_seconds();
  const auto started = std::chrono::steady_clock::now();
  std::uint64_t hash = 0;
  if (!run(ring, reads, buffers, options, hash)) return 1;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  std::printf(
      "{\"samples\": %zu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.4f, \"registered\": %s, \"hash\": "
      "%llu}\n",
      reads.size(), static_cast<unsigned long long>(content_bytes), seconds, cpu_seconds() - cpu_before,
      buffers.registered() ? "true" : "false", static_cast<unsigned long long>(hash));
  io_uring_queue_exit(&ring);
  ::close(fd);
  return 0;
}
