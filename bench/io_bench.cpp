// SPDX-License-Identifier: Apache-2.0
// Ways to read a data set of small files, each beside its baselines. One iteration reads every sample once, in random
// order; throughput is samples and bytes per second of wall time, cpu_us the processor time per sample of all threads,
// system_calls their system calls per sample.
//
//   io/read_files/<way>/cache:<cold|warm>      one file per sample
//     uring_{direct,buffered}     io_uring, with the file's version compared
//     pool_{direct,buffered}      the pread engine
//     page_cache (warm only)      PageCacheReader
//     baseline_{pread,threads,mmap}                     open+fstat+pread+close on 1 and on 16 threads, open+fstat+mmap
//   io/read_packed/<way>/cache:<cold|warm>     all samples in one file, each at a multiple of 4 KiB
//     {direct,pool_direct}                              as above; the file is registered
//     baseline_pread              pread on one thread
//
//   HEADRACE_BENCH_DIR=/mnt/xfs io_bench --benchmark_filter=read_files
//
// The data (HEADRACE_BENCH_FILES, default 2000, of 108 kB on average) is made below HEADRACE_BENCH_DIR (default
// /var/tmp) and removed at the end. Every way must deliver the same bytes: the sum of the first and last bytes of all
// samples is checked in each iteration. Cold means: page cache, directories and inodes dropped (root), or without root
// the files' pages only.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "headrace/io/engine.h"
#include "headrace/io/file_system.h"
#include "headrace/io/page_cache_reader.h"
#include "headrace/io/pread_engine.h"
#include "headrace/io/unique_fd.h"
#include "headrace/io/uring_engine.h"

namespace {

using namespace headrace::io;
namespace fs = std::filesystem;

constexpr unsigned kFilesPerFolder = 100;
constexpr unsigned kBaselineThreads = 16;

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// What every way has to see of a sample.
std::uint64_t check_value(std::span<const std::byte> content) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::memcpy(&first, content.data(), sizeof first);
  std::memcpy(&last, content.data() + content.size() - sizeof last, sizeof last);
  return first ^ (last << 1);
}

struct SampleFile {
  std::string path;
  std::uint64_t size_bytes = 0;
  std::uint64_t pack_offset_bytes = 0;
  FileAttributes attributes = {};
};

// The files and the pack, in one folder that is removed at the end.
class DataSet {
 public:
  DataSet() : folder_(make_folder()) {
    const std::uint64_t count = environment_number("HEADRACE_BENCH_FILES", 2000);
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> size(std::log(86'000.0), 0.68);
    std::vector<std::uint64_t> content(4 << 20 >> 3);
    std::ranges::generate(content, random);
    const UniqueFd pack(::open((folder_ / "pack").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (std::uint64_t i = 0; i < count; ++i) add(i, std::clamp(size(random), 4096.0, 2e6), content, pack.get());
    ::sync();
    std::ranges::shuffle(samples_, random);
    dir_ = UniqueFd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    pack_ = UniqueFd(::open((folder_ / "pack").c_str(), O_RDONLY | O_CLOEXEC));
    pack_direct_ = UniqueFd(::open((folder_ / "pack").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  }
  ~DataSet() { fs::remove_all(folder_); }
  DataSet(const DataSet&) = delete;
  DataSet& operator=(const DataSet&) = delete;

  [[nodiscard]] const std::vector<SampleFile>& samples() const { return samples_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t largest() const { return largest_; }
  [[nodiscard]] std::uint64_t check_sum() const { return check_sum_; }
  [[nodiscard]] int dir() const { return dir_.get(); }
  [[nodiscard]] int pack() const { return pack_.get(); }
  [[nodiscard]] int pack_direct() const { return pack_direct_.valid() ? pack_direct_.get() : pack_.get(); }

  void make_cold() const {
    for (const SampleFile& sample : samples_) {
      const UniqueFd file(::openat(dir(), sample.path.c_str(), O_RDONLY | O_CLOEXEC));
      ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    ::posix_fadvise(pack(), 0, 0, POSIX_FADV_DONTNEED);
    const UniqueFd drop(::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
    if (drop.valid() && ::write(drop.get(), "3", 1) != 1) std::abort();
  }

  void make_warm() const {
    std::vector<char> buffer(largest_);
    for (const SampleFile& sample : samples_) {
      const UniqueFd file(::openat(dir(), sample.path.c_str(), O_RDONLY | O_CLOEXEC));
      if (::pread(file.get(), buffer.data(), sample.size_bytes, 0) < 0) std::abort();
      if (::pread(pack(), buffer.data(), sample.size_bytes, static_cast<off_t>(sample.pack_offset_bytes)) < 0)
        std::abort();
    }
  }

 private:
  static fs::path make_folder() {
    const char* const base = std::getenv("HEADRACE_BENCH_DIR");
    std::string name = std::string(base != nullptr ? base : "/var/tmp") + "/headrace-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::exit(2);
    }
    return name;
  }

  void add(std::uint64_t number, double size, const std::vector<std::uint64_t>& content, int pack) {
    SampleFile sample;
    sample.size_bytes = static_cast<std::uint64_t>(size);
    sample.pack_offset_bytes = pack_end_;
    const std::string class_folder = std::to_string(number / kFilesPerFolder);
    fs::create_directories(folder_ / class_folder);
    sample.path = class_folder + "/" + std::to_string(number) + ".jpg";
    const auto* const begin = reinterpret_cast<const std::byte*>(content.data()) + number * 8 % (1 << 20);
    const UniqueFd file(::open((folder_ / sample.path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto bytes = static_cast<ssize_t>(sample.size_bytes);
    if (::write(file.get(), begin, sample.size_bytes) != bytes) std::abort();
    if (::pwrite(pack, begin, sample.size_bytes, static_cast<off_t>(pack_end_)) != bytes) std::abort();
    pack_end_ += round_up(sample.size_bytes);
    bytes_ += sample.size_bytes;
    largest_ = std::max(largest_, sample.size_bytes);
    check_sum_ += check_value({begin, sample.size_bytes});
    sample.attributes = *attributes_of(file.get());
    samples_.push_back(std::move(sample));
  }

  const fs::path folder_;
  std::vector<SampleFile> samples_;
  std::uint64_t bytes_ = 0;
  std::uint64_t largest_ = 0;
  std::uint64_t pack_end_ = 0;
  std::uint64_t check_sum_ = 0;
  UniqueFd dir_;
  UniqueFd pack_;
  UniqueFd pack_direct_;
};

DataSet& data_set() {
  static DataSet instance;
  return instance;
}

// Reads all samples through an engine, each buffer taking the next sample when its last one has come.
class EngineRun {
 public:
  EngineRun(Engine& engine, CacheMode mode, bool packed) : engine_(engine), mode_(mode), packed_(packed) {
    const DataSet& data = data_set();
    for (unsigned i = 0; i < engine.info().queue_depth_max; ++i) {
      const std::size_t capacity = round_up(data.largest()) + kBufferAlignment;
      auto buffer = Buffer::allocate(capacity);
      if (!buffer) break;
      lanes_.push_back(std::make_unique<Lane>());
      lanes_.back()->run = this;
      lanes_.back()->operation.buffer = std::move(*buffer);
    }
  }

  std::uint64_t read_all() {
    next_ = 0;
    sum_ = 0;
    for (auto& lane : lanes_) start(*lane);
    while (engine_.in_flight() > 0) engine_.wait(std::chrono::steady_clock::time_point::max());
    return sum_;
  }

 private:
  struct Lane {
    EngineRun* run = nullptr;
    Operation operation;
  };

  void start(Lane& lane) {
    const DataSet& data = data_set();
    if (next_ == data.samples().size()) return;
    const SampleFile& sample = data.samples()[next_++];
    Buffer buffer = std::move(lane.operation.buffer);
    if (packed_) {
      const int fd = mode_ == CacheMode::kDirect ? data.pack_direct() : data.pack();
      lane.operation = Operation::read(fd, sample.pack_offset_bytes, sample.size_bytes, std::move(buffer));
    } else {
      lane.operation = Operation::read_path(data.dir(), sample.path.c_str(), 0, sample.size_bytes, std::move(buffer));
      lane.operation.expected = &sample.attributes;
    }
    lane.operation.cache_mode = mode_;
    lane.operation.context = &lane;
    lane.operation.on_complete = [](Operation& self, Result<std::uint64_t> bytes) {
      auto& mine = *static_cast<Lane*>(self.context);
      if (!bytes) std::abort();
      mine.run->sum_ += check_value({self.data(), *bytes});
      mine.run->start(mine);
    };
    engine_.submit(lane.operation);
  }

  Engine& engine_;
  const CacheMode mode_;
  const bool packed_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t next_ = 0;
  std::uint64_t sum_ = 0;
};

double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// System calls of all threads of this process; absent where the kernel's tracepoint cannot be had (root, tracefs).
class SystemCallCounter {
 public:
  // Before any other thread starts: threads inherit the counter.
  SystemCallCounter() {
    std::ifstream file("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id");
    perf_event_attr attributes = {};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_TRACEPOINT;
    attributes.inherit = 1;
    if (!(file >> attributes.config)) return;
    counter_ = UniqueFd(static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  }
  [[nodiscard]] bool works() const { return counter_.valid(); }
  [[nodiscard]] double count() const {
    std::uint64_t value = 0;
    return works() && ::read(counter_.get(), &value, sizeof value) == sizeof value ? static_cast<double>(value) : 0;
  }

 private:
  UniqueFd counter_;
};

SystemCallCounter& system_calls() {
  static SystemCallCounter instance;
  return instance;
}

using ReadAll = std::function<std::uint64_t()>;

void measure(benchmark::State& state, bool cold, const ReadAll& read_all) {
  const DataSet& data = data_set();
  double cpu = 0;
  double calls = 0;
  for (auto _ : state) {
    state.PauseTiming();
    cold ? data.make_cold() : data.make_warm();
    const double cpu_before = cpu_seconds();
    const double calls_before = system_calls().count();
    state.ResumeTiming();
    const std::uint64_t sum = read_all();
    state.PauseTiming();
    calls += system_calls().count() - calls_before;
    cpu += cpu_seconds() - cpu_before;
    if (sum != data.check_sum()) return state.SkipWithError("other bytes were read");
    state.ResumeTiming();
  }
  const auto samples = static_cast<double>(state.iterations()) * static_cast<double>(data.samples().size());
  state.SetItemsProcessed(static_cast<std::int64_t>(samples));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(data.bytes()));
  state.counters["cpu_us"] = cpu * 1e6 / samples;
  if (system_calls().works()) state.counters["system_calls"] = calls / samples;
}

struct Way {
  const char* name;
  CacheMode mode;
  bool uring;
  bool packed;
};

const Way kWays[] = {
    {"read_files/uring_direct", CacheMode::kDirect, true, false},
    {"read_files/uring_buffered", CacheMode::kBuffered, true, false},
    {"read_files/pool_direct", CacheMode::kDirect, false, false},
    {"read_files/pool_buffered", CacheMode::kBuffered, false, false},
    {"read_packed/direct", CacheMode::kDirect, true, true},
    {"read_packed/pool_direct", CacheMode::kDirect, false, true},
};

void measure_way(benchmark::State& state, const Way& way, bool cold) {
  auto engine = way.uring ? open_uring_engine({}) : open_pread_engine({}, "");
  if (!engine) return state.SkipWithError(engine.error().message().c_str());
  if (way.packed) (*engine)->register_file(data_set().pack_direct());
  EngineRun run(**engine, way.mode, way.packed);
  run.read_all();  // brings in the buffers' memory and lets the depth settle
  measure(state, cold, [&run] { return run.read_all(); });
  state.counters["depth"] = (*engine)->info().queue_depth;
}

// open, fstat, pread, close of the samples that `next` hands out.
std::uint64_t pread_files(std::atomic<std::size_t>& next) {
  const DataSet& data = data_set();
  std::vector<std::byte> buffer(data.largest());
  std::uint64_t sum = 0;
  for (std::size_t i = next++; i < data.samples().size(); i = next++) {
    const UniqueFd file(::openat(data.dir(), data.samples()[i].path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat about = {};
    if (::fstat(file.get(), &about) != 0) std::abort();
    const auto size = static_cast<std::size_t>(about.st_size);
    if (::pread(file.get(), buffer.data(), size, 0) != about.st_size) std::abort();
    sum += check_value({buffer.data(), size});
  }
  return sum;
}

std::uint64_t pread_threads(unsigned count) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> sum = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&] { sum += pread_files(next); });
  for (std::thread& thread : threads) thread.join();
  return sum;
}

std::uint64_t map_files() {
  const DataSet& data = data_set();
  std::uint64_t sum = 0;
  std::vector<std::byte> copy(data.largest());
  for (const SampleFile& sample : data.samples()) {
    const UniqueFd file(::openat(data.dir(), sample.path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat about = {};
    if (::fstat(file.get(), &about) != 0) std::abort();
    const auto size = static_cast<std::size_t>(about.st_size);
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file.get(), 0);
    if (memory == MAP_FAILED) std::abort();
    std::memcpy(copy.data(), memory, size);  // as the others: the content ends in the reader's own memory
    sum += check_value({copy.data(), size});
    ::munmap(memory, size);
  }
  return sum;
}

std::uint64_t pread_pack() {
  const DataSet& data = data_set();
  std::vector<std::byte> buffer(data.largest());
  std::uint64_t sum = 0;
  for (const SampleFile& sample : data.samples()) {
    const ssize_t count =
        ::pread(data.pack(), buffer.data(), sample.size_bytes, static_cast<off_t>(sample.pack_offset_bytes));
    if (count != static_cast<ssize_t>(sample.size_bytes)) std::abort();
    sum += check_value({buffer.data(), sample.size_bytes});
  }
  return sum;
}

std::uint64_t read_page_cache() {
  const DataSet& data = data_set();
  PageCacheReader reader(data.dir(), describe_file_system(data.dir()).in_memory);
  std::vector<std::byte> content(data.largest());
  std::uint64_t sum = 0;
  for (const SampleFile& sample : data.samples()) {
    const std::span<std::byte> bytes(content.data(), sample.size_bytes);
    if (!reader.try_read(sample.path.c_str(), bytes, &sample.attributes)) return 0;
    sum += check_value(bytes);
  }
  return sum;
}

void print_machine() {
  utsname system = {};
  ::uname(&system);
  const FileSystemTraits traits = describe_file_system(data_set().dir());
  std::printf("kernel %s, %s%s, %zu samples of %zu bytes on average, cores %u\n", system.release, traits.name.c_str(),
              traits.rotational ? " (rotational)" : "", data_set().samples().size(),
              static_cast<std::size_t>(data_set().bytes() / data_set().samples().size()),
              std::thread::hardware_concurrency());
}

void add_case(const std::string& name, bool cold, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(("io/" + name + (cold ? "/cache:cold" : "/cache:warm")).c_str(),
                               [body = std::move(body)](benchmark::State& state) { body(state); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

void add_baseline(const std::string& name, bool cold, ReadAll read_all) {
  add_case(name, cold,
           [cold, read_all = std::move(read_all)](benchmark::State& state) { measure(state, cold, read_all); });
}

void add_cases(bool cold) {
  for (const Way& way : kWays) {
    add_case(way.name, cold, [&way, cold](benchmark::State& state) { measure_way(state, way, cold); });
  }
  add_baseline("read_files/baseline_pread", cold, [] { return pread_threads(1); });
  add_baseline("read_files/baseline_threads", cold, [] { return pread_threads(kBaselineThreads); });
  add_baseline("read_files/baseline_mmap", cold, map_files);
  add_baseline("read_packed/baseline_pread", cold, pread_pack);
  if (!cold) add_baseline("read_files/page_cache", cold, read_page_cache);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  system_calls();
  add_cases(true);
  add_cases(false);
  print_machine();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
