// SPDX-License-Identifier: Apache-2.0
// Reads a list of files as a loader does: open, fstat, read, close; with several processes or threads.
//
//   read_files ROOT LIST [--processes P] [--threads T] [--passes N] [--sum] [--latency]
//
// LIST has one path relative to ROOT per line, in the order to read. Processes and threads take the next file from one
// counter, as worker processes that are equally fast would. --sum also adds up XXH3 of each file: the same bytes give
// the same sum, whatever the order. --latency also times each file. Prints one JSON line.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string root;
  std::string list;
  unsigned processes = 1;
  unsigned threads = 1;
  unsigned passes = 1;
  bool sum = false;
  bool latency = false;
};

// Shared by all processes.
struct Shared {
  std::atomic<std::uint64_t> next = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::uint64_t> checksum = 0;
  std::atomic<std::uint64_t> failures = 0;
  std::atomic<bool> go = false;
};

class Reading {
 public:
  Reading(const Options& options, std::vector<std::string> files)
      : options_(options), files_(std::move(files)), root_(::open(options.root.c_str(), O_PATH | O_DIRECTORY)) {
    void* memory = ::mmap(nullptr, map_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    shared_ = new (memory) Shared;
    latencies_ = reinterpret_cast<std::uint32_t*>(shared_ + 1);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    ::close(root_);
    ::munmap(shared_, map_bytes());
  }

  // Reads every file `passes` times with all processes and threads; the seconds from the common start to the last end.
  double run() {
    std::vector<pid_t> children;
    for (unsigned i = 0; i < options_.processes; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        while (!shared_->go) std::this_thread::yield();
        run_threads();
        ::_exit(0);
      }
      children.push_back(child);
    }
    const auto start = Clock::now();
    shared_->go = true;
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  [[nodiscard]] const Shared& shared() const { return *shared_; }
  [[nodiscard]] std::uint64_t total() const { return files_.size() * options_.passes; }

  // Microseconds that `share` of the reads took at most.
  [[nodiscard]] std::uint32_t latency_us(double share) {
    std::sort(latencies_, latencies_ + total());
    return latencies_[static_cast<std::size_t>(share * static_cast<double>(total() - 1))];
  }

 private:
  [[nodiscard]] std::size_t map_bytes() const { return sizeof(Shared) + total() * sizeof(std::uint32_t); }

  void run_threads() {
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.threads; ++i) threads.emplace_back([this] { read_until_done(); });
    read_until_done();
    for (std::thread& thread : threads) thread.join();
  }

  void read_until_done() {
    std::vector<char> buffer;
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;
    for (std::uint64_t i = shared_->next++; i < total(); i = shared_->next++) {
      const auto start = options_.latency ? Clock::now() : Clock::time_point();
      const std::size_t size = read_file(files_[i % files_.size()], buffer);
      bytes += size;
      if (options_.sum) checksum += XXH3_64bits(buffer.data(), size);
      if (!options_.latency) continue;
      const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
      latencies_[i] = static_cast<std::uint32_t>(taken.count());
    }
    shared_->bytes += bytes;
    shared_->checksum += checksum;
  }

  // The number of bytes read; 0 when it failed, which is counted.
  std::size_t read_file(const std::string& file, std::vector<char>& buffer) {
    const int fd = ::openat(root_, file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat attributes = {};
    if (fd < 0 || ::fstat(fd, &attributes) != 0) {
      report_failure(file);
      if (fd >= 0) ::close(fd);
      return 0;
    }
    const auto size = static_cast<std::size_t>(attributes.st_size);
    if (buffer.size() < size) buffer.resize(size);
    std::size_t used = 0;
    while (used < size) {
      const ssize_t count = ::read(fd, buffer.data() + used, size - used);
      if (count <= 0) {
        report_failure(file);
        break;
      }
      used += static_cast<std::size_t>(count);
    }
    ::close(fd);
    return used;
  }

  void report_failure(const std::string& file) {
    if (shared_->failures++ == 0) std::fprintf(stderr, "read_files: %s: %s\n", file.c_str(), std::strerror(errno));
  }

  Options options_;
  std::vector<std::string> files_;
  int root_;
  Shared* shared_;
  std::uint32_t* latencies_;  // one per read, behind the Shared
};

// What the reading processes have used so far.
double child_cpu_seconds(const rusage& usage) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

bool parse(int argc, char** argv, Options& options) {
  std::vector<std::string> places;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&] { return i + 1 < argc ? static_cast<unsigned>(std::atoi(argv[++i])) : 0U; };
    if (argument == "--processes") {
      options.processes = number();
    } else if (argument == "--threads") {
      options.threads = number();
    } else if (argument == "--passes") {
      options.passes = number();
    } else if (argument == "--sum") {
      options.sum = true;
    } else if (argument == "--latency") {
      options.latency = true;
    } else {
      places.emplace_back(argument);
    }
  }
  if (places.size() != 2) return false;
  options.root = places[0];
  options.list = places[1];
  return options.processes > 0 && options.threads > 0 && options.passes > 0;
}

std::vector<std::string> read_list(const std::string& path) {
  std::vector<std::string> files;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) files.push_back(line);
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: read_files ROOT LIST [--processes P] [--threads T] [--passes N] [--sum] [--latency]\n");
    return 2;
  }
  Reading reading(options, read_list(options.list));
  if (reading.total() == 0) {
    std::fprintf(stderr, "read_files: %s: no files listed\n", options.list.c_str());
    return 1;
  }
  const double seconds = reading.run();
  rusage usage = {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  std::printf("{\"samples\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.3f, \"peak_bytes\": %ld",
              static_cast<unsigned long long>(reading.total()), static_cast<unsigned long long>(reading.shared().bytes),
              seconds, child_cpu_seconds(usage), usage.ru_maxrss * 1024 * static_cast<long>(options.processes));
  if (options.sum) std::printf(", \"xxh3\": \"%016llx\"", static_cast<unsigned long long>(reading.shared().checksum));
  if (options.latency) {
    std::printf(", \"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u", reading.latency_us(0.5), reading.latency_us(0.99),
                reading.latency_us(0.999));
  }
  std::printf("}\n");
  return reading.shared().failures == 0 ? 0 : 1;
}
