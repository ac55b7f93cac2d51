// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/catalog.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/revalidate.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace catalog_test {

using namespace headrace::cache;
using headrace::io::ErrorCode;
using headrace::test::TempDir;
namespace fs = std::filesystem;

namespace {

// Three classes, one of them with a sub-folder, symlinks of every kind, and files that are no samples.
void make_tree(const TempDir& dir) {
  dir.write("data/cat/1.jpg", "meow");
  dir.write("data/cat/2.JPEG", "meow meow");
  dir.write("data/dog/1.png", "wuff");
  dir.write("data/dog/more/1.jpg", "wuff wuff");
  dir.write("data/dog/notes.txt", "no sample");
  dir.write("data/top.jpg", "outside the classes");
  dir.write("outside.jpg", "outside the tree");
  const fs::path data = dir.path() / "data";
  fs::create_directory_symlink("cat", data / "linked");
  fs::create_symlink("../cat/1.jpg", data / "dog/same.jpg");
  fs::create_symlink(data / "cat/2.JPEG", data / "dog/same2.jpg");
  fs::create_symlink("../../outside.jpg", data / "dog/zz.jpg");
  fs::create_symlink("loop", data / "loop");
}

std::vector<std::string> sample_paths(const Catalog& catalog) {
  std::vector<std::string> paths;
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    paths.push_back(catalog.path(catalog.sample_entry(sample)));
  }
  return paths;
}

void check_same(const Catalog& a, const Catalog& b) {
  REQUIRE(a.entry_count() == b.entry_count());
  for (EntryId entry = 0; entry < a.entry_count(); ++entry) {
    CHECK(a.path(entry) == b.path(entry));
    CHECK(a.identity(entry) == b.identity(entry));
    CHECK(a.attributes(entry) == b.attributes(entry));
    CHECK(a.symlink_target(entry) == b.symlink_target(entry));
    CHECK(a.sample_of(entry) == b.sample_of(entry));
  }
  CHECK(sample_paths(a) == sample_paths(b));
  CHECK(a.sample_bytes() == b.sample_bytes());
  CHECK(a.class_count() == b.class_count());
  CHECK(a.listing() == b.listing());
  CHECK(a.skipped() == b.skipped());
}

void use_everything(const Catalog& catalog) {
  std::size_t bytes = 0;
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    const std::string path = catalog.path(entry);
    bytes += path.size() + catalog.symlink_target(entry).size() + catalog.children(entry).count;
    const std::optional<EntryId> found = catalog.find(path);
    if (!catalog.is_symlink(entry)) CHECK(found == entry);
    if (const std::optional<EntryId> resolved = catalog.resolve(entry)) bytes += catalog.name(*resolved).size();
    const std::optional<SampleIndex> sample = catalog.sample_of(entry);
    if (sample) CHECK(catalog.sample_entry(*sample) == entry);
  }
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    bytes += catalog.size_bytes(catalog.sample_entry(sample)) + catalog.sample_label(sample);
  }
  CHECK(bytes > 0);
}

// Where the checksums lie in the saved form (catalog_file.cpp).
constexpr std::size_t kPayloadHashAt = 16;
constexpr std::size_t kHeaderHashAt = 112;
constexpr std::size_t kHeaderBytes = 120;

std::string with_right_checksums(std::string saved) {
  const std::uint64_t payload_hash = XXH3_64bits(saved.data() + kHeaderBytes, saved.size() - kHeaderBytes);
  std::memcpy(saved.data() + kPayloadHashAt, &payload_hash, sizeof payload_hash);
  const std::uint64_t header_hash = XXH3_64bits(saved.data(), kHeaderHashAt);
  std::memcpy(saved.data() + kHeaderHashAt, &header_hash, sizeof header_hash);
  return saved;
}

// Changes one to three bytes, a quarter of them in the header.
std::string damaged(std::string saved, std::mt19937_64& random) {
  for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
    const bool in_header = random() % 4 == 0;
    const std::size_t first = in_header ? kPayloadHashAt + 8 : kHeaderBytes;
    const std::size_t end = in_header ? kHeaderHashAt : saved.size();
    char& byte = saved[first + random() % (end - first)];
    byte = static_cast<char>(random() % 2 == 0 ? random() : static_cast<std::uint64_t>(byte) + 1);
  }
  return saved;
}

std::string read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("a catalog lists the tree breadth first, children sorted by name") {
  const TempDir dir;
  make_tree(dir);
  const Result<Catalog> catalog = Catalog::scan(dir.path() / "data", {});
  REQUIRE(catalog);
  std::vector<std::string> paths;
  for (EntryId entry = 0; entry < catalog->entry_count(); ++entry) paths.push_back(catalog->path(entry));
  CHECK(paths == std::vector<std::string>{"", "cat", "dog", "linked", "loop", "top.jpg", "cat/1.jpg", "cat/2.JPEG",
                                          "dog/1.png", "dog/more", "dog/notes.txt", "dog/same.jpg", "dog/same2.jpg",
                                          "dog/zz.jpg", "dog/more/1.jpg"});
  CHECK(catalog->is_directory(kRootEntry));
  CHECK(catalog->parent(kRootEntry) == kRootEntry);
  CHECK(catalog->children(kRootEntry).count == 5);
  CHECK(catalog->subdirectory_count(kRootEntry) == 2);
  CHECK(catalog->children(*catalog->find("top.jpg")).count == 0);
  CHECK(catalog->is_symlink(*catalog->find(kRootEntry, "linked")));
  CHECK(catalog->symlink_target(*catalog->find(kRootEntry, "linked")) == "cat");
  CHECK(catalog->size_bytes(*catalog->find("cat/1.jpg")) == 4);
  struct stat status = {};
  REQUIRE(::lstat((dir.path() / "data/cat/1.jpg").c_str(), &status) == 0);
  CHECK(catalog->identity(*catalog->find("cat/1.jpg")).inode == status.st_ino);
  CHECK(catalog->attributes(*catalog->find("cat/1.jpg")).mode == status.st_mode);
}

TEST_CASE("samples follow ImageFolder's rule, with the files behind symlinks and the label of each") {
  const TempDir dir;
  make_tree(dir);
  const Result<Catalog> catalog = Catalog::scan(dir.path() / "data", {});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) == std::vector<std::string>{"cat/1.jpg", "cat/2.JPEG", "dog/1.png", "cat/1.jpg",
                                                           "cat/2.JPEG", "dog/zz.jpg", "dog/more/1.jpg", "cat/1.jpg",
                                                           "cat/2.JPEG"});
  CHECK(catalog->class_count() == 3);
  CHECK(catalog->sample_label(1) == 0);
  CHECK(catalog->sample_label(6) == 1);
  CHECK(catalog->sample_label(8) == 2);
  CHECK(catalog->sample_of(*catalog->find("cat/2.JPEG")) == 1);
  CHECK_FALSE(catalog->sample_of(*catalog->find("top.jpg")));
  CHECK_FALSE(catalog->sample_of(*catalog->find(kRootEntry, "linked")));
  CHECK(catalog->listing() == ListingRule::kImageFolder);
}

TEST_CASE("a path leads through symlinks inside the tree and nowhere else") {
  const TempDir dir;
  make_tree(dir);
  const Result<Catalog> catalog = Catalog::scan(dir.path() / "data", {});
  REQUIRE(catalog);
  const EntryId cat = *catalog->find("cat/1.jpg");
  CHECK(catalog->find("linked/1.jpg") == cat);
  CHECK(catalog->find("dog/same.jpg") == cat);
  CHECK(catalog->find("./dog/..//cat/1.jpg") == cat);
  CHECK(catalog->find("dog/same2.jpg") == *catalog->find("cat/2.JPEG"));
  CHECK(catalog->find("") == kRootEntry);
  CHECK_FALSE(catalog->find("dog/zz.jpg"));
  CHECK_FALSE(catalog->find("loop"));
  CHECK_FALSE(catalog->find("../data/cat"));
  CHECK_FALSE(catalog->find("cat/1.jpg/x"));
  CHECK_FALSE(catalog->find("cat/missing"));
}

TEST_CASE("a tree without samples of the rule falls back to every file, sorted by path") {
  const TempDir dir;
  dir.write("b/x.bin", "1");
  dir.write("a.bin", "1");
  dir.write("b.bin", "1");
  dir.write("b-/y", "1");
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {});
  REQUIRE(catalog);
  CHECK(catalog->listing() == ListingRule::kSorted);
  CHECK(sample_paths(*catalog) == std::vector<std::string>{"a.bin", "b-/y", "b.bin", "b/x.bin"});
  CHECK(catalog->class_count() == 0);
}

TEST_CASE("an empty folder is a catalog without samples") {
  const TempDir dir;
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {});
  REQUIRE(catalog);
  CHECK(catalog->entry_count() == 1);
  CHECK(catalog->sample_count() == 0);
  REQUIRE(catalog->save(dir.path() / "saved"));
  CHECK(Catalog::load(dir.path() / "saved"));
}

TEST_CASE("a source that is missing or a file is refused with its reason") {
  const TempDir dir;
  const fs::path file = dir.write("file", "x");
  CHECK(Catalog::scan(dir.path() / "missing", {}).error().code == ErrorCode::kNotFound);
  CHECK(Catalog::scan(file, {}).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a folder that cannot be read fails the scan by name, unless it is accepted, and is never missing later") {
  const TempDir dir;
  dir.write("data/open/1.jpg", "x");
  dir.write("data/closed/1.jpg", "x");
  fs::permissions(dir.path(), fs::perms::all);  // a catalog can be saved there by anybody
  const fs::path closed = dir.path() / "data/closed";
  const fs::path file = dir.path() / "catalog";
  const headrace::io::UniqueFd fd(::open((dir.path() / "data").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  fs::permissions(closed, fs::perms::none);
  ::setfsuid(65534);  // of this thread and those that it starts; root could read the folder
  const Result<Catalog> refused = open_catalog(fd.get(), {}, file);
  const Result<Catalog> accepted = open_catalog(fd.get(), {.accept_unreadable = true}, file);
  ::setfsuid(::geteuid());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kPermission);
  CHECK(refused.error().message().find("/closed") != std::string::npos);
  REQUIRE(accepted.has_value());
  CHECK(accepted->sample_count() == 1);
  CHECK(accepted->unreadable() == 1);
  REQUIRE(accepted->save(dir.path() / "for a successor"));
  CHECK(Catalog::load(dir.path() / "for a successor")->unreadable() == 1);

  fs::permissions(closed, fs::perms::owner_all);
  const Result<Catalog> repaired = open_catalog(fd.get(), {}, file);
  REQUIRE(repaired.has_value());
  CHECK(repaired->sample_count() == 2);
  fs::permissions(closed, fs::perms::none);
  ::setfsuid(65534);
  const auto changes = find_changes(*repaired, fd.get(), {});
  ::setfsuid(::geteuid());
  fs::permissions(closed, fs::perms::owner_all);
  REQUIRE_FALSE(changes.has_value());
  CHECK(changes.error().message().find("/closed") != std::string::npos);
}

TEST_CASE("a saved catalog loads as it was") {
  const TempDir dir;
  make_tree(dir);
  dir.write("data/raw/\xff\xfe.jpg", "x");
  const Result<Catalog> catalog = Catalog::scan(dir.path() / "data", {});
  REQUIRE(catalog);
  REQUIRE(catalog->save(dir.path() / "saved"));
  REQUIRE(catalog->save(dir.path() / "saved"));  // over an older one
  const Result<Catalog> loaded = Catalog::load(dir.path() / "saved");
  REQUIRE(loaded);
  check_same(*catalog, *loaded);
  CHECK(loaded->find("dog/same2.jpg") == catalog->find("dog/same2.jpg"));
  CHECK(loaded->fits({}));
  CHECK_FALSE(loaded->fits({.listing = ListingRule::kTimm}));
  CHECK_FALSE(loaded->fits({.sample_list = dir.write("list", "cat/1.jpg\n")}));
  const auto left_over = std::count_if(fs::directory_iterator(dir.path()), fs::directory_iterator(),
                                       [](const auto& entry) { return entry.path().filename() != "data"; });
  CHECK(left_over == 3);  // saved, list, outside.jpg
}

TEST_CASE("a catalog that is missing, cut short, too long or of another version is refused") {
  const TempDir dir;
  make_tree(dir);
  const fs::path file = dir.path() / "saved";
  CHECK(Catalog::load(file).error().code == ErrorCode::kNotFound);
  REQUIRE(Catalog::scan(dir.path() / "data", {})->save(file));
  const std::string good = read_file(file);
  for (std::size_t length = 0; length < good.size(); ++length) {
    dir.write("cut", good.substr(0, length));
    CHECK(Catalog::load(dir.path() / "cut").error().code == ErrorCode::kCorrupt);
  }
  dir.write("long", good + "12345678");
  CHECK(Catalog::load(dir.path() / "long").error().code == ErrorCode::kCorrupt);
  std::string newer = good;
  ++newer[8];
  dir.write("newer", newer);
  CHECK(Catalog::load(dir.path() / "newer").error().code == ErrorCode::kUnsupported);
}

TEST_CASE("every flipped bit of a saved catalog is noticed") {
  const TempDir dir;
  make_tree(dir);
  const fs::path file = dir.path() / "saved";
  REQUIRE(Catalog::scan(dir.path() / "data", {})->save(file));
  const std::string good = read_file(file);
  for (std::size_t bit = 0; bit < good.size() * 8; bit += 3) {
    CAPTURE(bit);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    dir.write("bad", bad);
    CHECK_FALSE(Catalog::load(dir.path() / "bad"));
  }
}

// Right checksums over wrong content: the numbers themselves have to be checked. The sanitizers see what is not.
TEST_CASE("a hostile catalog is refused, or harmless") {
  const TempDir dir;
  make_tree(dir);
  const fs::path file = dir.path() / "saved";
  REQUIRE(Catalog::scan(dir.path() / "data", {})->save(file));
  const std::string good = read_file(file);
  std::mt19937_64 random(11);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    dir.write("bad", with_right_checksums(damaged(good, random)));
    const Result<Catalog> catalog = Catalog::load(dir.path() / "bad");
    if (catalog) {
      use_everything(*catalog);
    } else {
      CHECK(catalog.error().code == ErrorCode::kCorrupt);
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(refused < 3000);
}

TEST_CASE("a million files in one folder are found by name, in under 100 bytes each") {
  headrace::io::ScannedTree tree;
  headrace::io::ScannedDirectory& folder = tree.directories.emplace_back();
  folder.attributes.mode = S_IFDIR | 0755;
  folder.readable = true;
  constexpr std::uint32_t kFiles = 1'000'000;
  for (std::uint32_t i = 0; i < kFiles; ++i) {
    const std::string name = std::to_string(i * 7919ULL % kFiles) + ".jpg";
    headrace::io::ScannedEntry& entry = folder.entries.emplace_back();
    entry.attributes.mode = S_IFREG | 0644;
    entry.name_offset = static_cast<std::uint32_t>(folder.names.size());
    entry.name_bytes = static_cast<std::uint16_t>(name.size());
    folder.names += name;
  }
  const Result<Catalog> catalog = build_catalog(std::move(tree), {.listing = ListingRule::kSorted}, "");
  REQUIRE(catalog);
  CHECK(catalog->sample_count() == kFiles);
  for (const char* name : {"0.jpg", "999999.jpg", "123456.jpg"}) {
    const std::optional<EntryId> entry = catalog->find(name);
    REQUIRE(entry);
    CHECK(catalog->name(*entry) == name);
  }
  CHECK_FALSE(catalog->find("1000000.jpg"));
  const TempDir dir;
  REQUIRE(catalog->save(dir.path() / "saved"));
  CHECK(fs::file_size(dir.path() / "saved") < 100 * std::uint64_t{kFiles});
}

}  // namespace catalog_test
