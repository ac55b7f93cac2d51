// SPDX-License-Identifier: Apache-2.0
// What a catalog costs: loading a saved one of N files, and scanning a tree.
//
//   catalog_compare FILE --files N    makes FILE where it is missing; loads it
//   catalog_compare --scan FOLDER     reads the tree below FOLDER as a scan does
//
// Prints one JSON line.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/io/unique_fd.h"

namespace {

namespace cache = headrace::cache;
namespace io = headrace::io;

constexpr std::uint32_t kFilesPerClass = 1000;  // close to ImageNet's

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "catalog_compare: %s\n", message.c_str());
  std::_Exit(1);
}

void add_entry(io::ScannedDirectory& directory, const std::string& name, const io::ScannedEntry& like) {
  io::ScannedEntry entry = like;
  entry.name_offset = static_cast<std::uint32_t>(directory.names.size());
  entry.name_bytes = static_cast<std::uint16_t>(name.size());
  directory.names += name;
  directory.entries.push_back(entry);
}

// Classes of files with ImageNet's names, without touching a file system.
io::ScannedTree synthetic_tree(std::uint32_t files) {
  io::ScannedTree tree;
  const std::uint32_t classes = (files + kFilesPerClass - 1) / kFilesPerClass;
  tree.directories.resize(classes + 1);
  io::ScannedEntry file;
  file.attributes.mode = S_IFREG | 0644;
  for (io::ScannedDirectory& directory : tree.directories) {
    directory.attributes.mode = S_IFDIR | 0755;
    directory.readable = true;
  }
  for (std::uint32_t i = 0; i < classes; ++i) {
    const std::string class_name = "n" + std::to_string(10'000'000 + i);
    add_entry(tree.directories[0], class_name, {.attributes = {}, .directory = i + 1});
    for (std::uint32_t k = i * kFilesPerClass; k < std::min(files, (i + 1) * kFilesPerClass); ++k) {
      file.attributes.size_bytes = 100'000 + k % 10'000;
      file.attributes.inode = k;
      file.attributes.mtime_ns = 1'000'000'000 + std::int64_t{k};
      add_entry(tree.directories[i + 1], class_name + "_" + std::to_string(k) + ".JPEG", file);
    }
  }
  return tree;
}

// In a process of its own, so that its memory does not blur what loading takes.
void make_catalog(const std::string& file, std::uint32_t files) {
  const pid_t child = ::fork();
  if (child == 0) {
    io::Result<cache::Catalog> catalog = cache::build_catalog(synthetic_tree(files), {}, "");
    if (!catalog) fail(catalog.error().message());
    const auto start = std::chrono::steady_clock::now();
    if (const io::Status saved = catalog->save(file); !saved) fail(saved.error().message());
    std::fprintf(stderr, "saved in %.3f s\n", seconds_since(start));
    std::_Exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) fail("could not make " + file);
}

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void measure_load(const std::string& file, std::uint32_t files) {
  if (!std::filesystem::exists(file)) make_catalog(file, files);
  const std::uint64_t before = resident_bytes();
  const auto start = std::chrono::steady_clock::now();
  const io::Result<cache::Catalog> catalog = cache::Catalog::load(file);
  const double seconds = seconds_since(start);
  if (!catalog) fail(catalog.error().message());
  if (catalog->sample_count() != files) fail(file + " is of another number of files");
  std::printf("{\"files\": %u, \"seconds\": %.6f, \"memory_bytes_per_file\": %.1f, \"saved_bytes_per_file\": %.1f}\n",
              files, seconds, static_cast<double>(resident_bytes() - before) / files,
              static_cast<double>(std::filesystem::file_size(file)) / files);
}

void measure_scan(const char* folder) {
  const io::UniqueFd fd(::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) fail(std::string("cannot open ") + folder);
  const auto start = std::chrono::steady_clock::now();
  const io::Result<io::ScannedTree> tree = io::scan_tree(fd.get(), {});
  const double seconds = seconds_since(start);
  if (!tree) fail(tree.error().message());
  std::size_t entries = 0;
  for (const io::ScannedDirectory& directory : tree->directories) entries += directory.entries.size();
  const std::size_t files = entries - (tree->directories.size() - 1);
  std::printf("{\"samples\": %zu, \"seconds\": %.6f, \"xxh3\": \"%zu\"}\n", files, seconds, files);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--scan") {
    measure_scan(argv[2]);
  } else if (argc == 4 && std::string_view(argv[2]) == "--files") {
    measure_load(argv[1], static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)));
  } else {
    fail("usage: catalog_compare FILE --files N | --scan FOLDER");
  }
  return 0;
}
