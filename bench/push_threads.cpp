// SPDX-License-Identifier: Apache-2.0
// How fast samples come from memory into the page cache of a mount.
//
//   push_threads SOURCE MOUNTPOINT --threads N
//
// All samples of SOURCE are read into RAM first; what is timed is their way from there into the page cache, by N
// threads. Prints one JSON line. Then it reads all files through the mount, for their checksum.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sys/resource.h>
#include <xxhash.h>

#include "headrace/cache/store.h"
#include "headrace/fuse/mount.h"

namespace {

namespace cache = headrace::cache;
namespace fuse = headrace::fuse;

struct Options {
  std::string source;
  std::string mountpoint;
  unsigned threads = 1;
};

// Caught by main(), so that the mount ends.
[[noreturn]] void fail(const std::string& message) {
  throw std::runtime_error(message);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--threads" && i + 1 < argc) {
      options.threads = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      (options.source.empty() ? options.source : options.mountpoint) = word;
    }
  }
  if (options.mountpoint.empty()) fail("SOURCE MOUNTPOINT are missing");
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

std::uint64_t checksum_of(const std::filesystem::path& folder, const cache::Catalog& catalog) {
  std::uint64_t sum = 0;
  for (cache::SampleIndex i = 0; i < catalog.sample_count(); ++i) {
    std::ifstream file(folder / catalog.path(catalog.sample_entry(i)), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    sum += XXH3_64bits(bytes.data(), bytes.size());
  }
  return sum;
}

void run(const Options& options) {
  auto store = cache::Store::open({.source = options.source, .ram_bytes = std::uint64_t{4} << 30});
  if (!store) fail(store.error().message());
  const cache::Catalog& catalog = (*store)->catalog();
  std::uint64_t bytes = 0;
  for (cache::SampleIndex i = 0; i < catalog.sample_count(); ++i) {
    const auto view = (*store)->read(catalog.sample_entry(i));
    if (!view) fail(view.error().message());
    bytes += view->bytes().size();
  }
  auto mount = fuse::Mount::start(**store, {.mountpoint = options.mountpoint, .push_threads = options.threads});
  if (!mount) fail(mount.error().message());

  const double cpu_before = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  (*mount)->set_ram_bytes(bytes * 2 + (std::uint64_t{1} << 30));
  const auto pushed = (*mount)->push_until_full([](const fuse::PushProgress&) { return true; });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double cpu = cpu_seconds() - cpu_before;
  if (!pushed) fail(pushed.error().message());
  const std::uint64_t samples = (*mount)->stats().pushed_samples;
  if (samples != catalog.sample_count()) fail("not all samples were pushed");
  std::printf("{\"samples\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.3f, \"xxh3\": \"%016llx\"}\n",
              static_cast<unsigned long long>(samples), static_cast<unsigned long long>(bytes), seconds, cpu,
              static_cast<unsigned long long>(checksum_of(options.mountpoint, catalog)));
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "push_threads: %s\n", error.what());
  return 1;
}
