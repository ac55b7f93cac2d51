// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/revalidate.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "headrace/cache/same_entries.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace revalidate_test {

using namespace headrace::cache;
using headrace::io::UniqueFd;
using headrace::test::TempDir;
namespace fs = std::filesystem;

namespace {

// A tree whose timestamps lie in the past, so that a change in the same tick of the clock shows.
class Source {
 public:
  Source() {
    dir_.write("a/1.jpg", "one");
    dir_.write("a/2.jpg", "two");
    dir_.write("b/deep/1.jpg", "three");
    fs::create_symlink("a/1.jpg", path() / "link");
    const timespec past[2] = {{.tv_sec = 1'000'000'000, .tv_nsec = 1}, {.tv_sec = 1'000'000'000, .tv_nsec = 1}};
    for (const char* each : {"", "a", "a/1.jpg", "a/2.jpg", "b", "b/deep", "b/deep/1.jpg", "link"}) {
      REQUIRE(::utimensat(AT_FDCWD, (path() / each).c_str(), past, AT_SYMLINK_NOFOLLOW) == 0);
    }
    fd_.reset(::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    catalog_ = *Catalog::scan_fd(fd_.get(), {});
  }

  [[nodiscard]] const fs::path& path() const { return dir_.path(); }
  [[nodiscard]] const Catalog& catalog() const { return catalog_; }
  [[nodiscard]] bool folders_are_current() const { return *folders_current(catalog_, fd_.get(), {}); }
  [[nodiscard]] CatalogChanges changes() const { return *find_changes(catalog_, fd_.get(), {}); }
  // With the catalog that shows other names, if there are any.
  [[nodiscard]] CatalogChanges names() const { return *find_changes(catalog_, fd_.get(), {.next = CatalogOptions{}}); }
  void write(const char* file, const char* content) const { dir_.write(file, content); }

 private:
  TempDir dir_;
  UniqueFd fd_;
  Catalog catalog_;
};

}  // namespace

TEST_CASE("an untouched source is current") {
  const Source source;
  CHECK(source.folders_are_current());
  CHECK(source.changes().none());
}

TEST_CASE("content that was replaced under its old size and mtime is found") {
  const Source source;
  source.write("a/2.jpg", "2wo");
  const timespec past[2] = {{.tv_sec = 1'000'000'000, .tv_nsec = 1}, {.tv_sec = 1'000'000'000, .tv_nsec = 1}};
  REQUIRE(::utimensat(AT_FDCWD, (source.path() / "a/2.jpg").c_str(), past, 0) == 0);
  const CatalogChanges changes = source.changes();
  REQUIRE(changes.changed.size() == 1);
  CHECK(changes.changed[0].identity.mtime_ns == source.catalog().identity(changes.changed[0].entry).mtime_ns);
}

TEST_CASE("a catalog that an earlier version saved is made anew without an error") {
  const TempDir scratch;
  scratch.write("data/1.jpg", "one");
  const fs::path file = scratch.path() / "saved";
  const UniqueFd fd(::open((scratch.path() / "data").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(open_catalog(fd.get(), {}, file).has_value());
  std::fstream saved(file, std::ios::in | std::ios::out | std::ios::binary);
  saved.seekp(8).put('\1');
  saved.close();
  REQUIRE_FALSE(Catalog::load(file).has_value());
  const auto anew = open_catalog(fd.get(), {}, file);
  REQUIRE(anew.has_value());
  CHECK(anew->sample_count() == 1);
  CHECK(Catalog::load(file).has_value());
}

TEST_CASE("a file written in place is found, with its identity from now on") {
  const Source source;
  source.write("a/2.jpg", "other content");
  CHECK(source.folders_are_current());
  const CatalogChanges changes = source.changes();
  REQUIRE(changes.changed.size() == 1);
  CHECK(source.catalog().path(changes.changed[0].entry) == "a/2.jpg");
  CHECK(changes.changed[0].identity.size_bytes == 13);
  CHECK(changes.changed[0].identity.inode == source.catalog().identity(changes.changed[0].entry).inode);
  CHECK(changes.vanished.empty());
  CHECK(changes.appeared == 0);
}

TEST_CASE("a file replaced by rename is found, even where size and mtime are the same") {
  const Source source;
  source.write("a/new", "tw0");
  fs::last_write_time(source.path() / "a/new", fs::last_write_time(source.path() / "a/2.jpg"));
  fs::rename(source.path() / "a/new", source.path() / "a/2.jpg");
  CHECK_FALSE(source.folders_are_current());
  const CatalogChanges changes = source.changes();
  REQUIRE(changes.changed.size() == 1);
  CHECK(source.catalog().path(changes.changed[0].entry) == "a/2.jpg");
}

TEST_CASE("what appears and vanishes is counted, folders with their content") {
  const Source source;
  fs::remove_all(source.path() / "b");
  source.write("c/1.jpg", "new");
  source.write("c/2.jpg", "new");
  CHECK_FALSE(source.folders_are_current());
  const CatalogChanges changes = source.changes();
  REQUIRE(changes.vanished.size() == 1);
  CHECK(source.catalog().path(changes.vanished[0]) == "b/deep/1.jpg");
  CHECK(changes.appeared == 3);
  CHECK(changes.changed.empty());
}

TEST_CASE("a file that became a folder, and a symlink that leads elsewhere, have vanished") {
  const Source source;
  fs::remove(source.path() / "a/1.jpg");
  fs::create_directory(source.path() / "a/1.jpg");
  fs::remove(source.path() / "link");
  fs::create_symlink("a/2.jpg", source.path() / "link");
  const CatalogChanges changes = source.changes();
  REQUIRE(changes.vanished.size() == 2);
  CHECK(source.catalog().path(changes.vanished[0]) == "link");
  CHECK(source.catalog().path(changes.vanished[1]) == "a/1.jpg");
  CHECK(changes.appeared == 1);
}

TEST_CASE("where names are others, a comparison brings the catalog of what there is now, if it is asked to") {
  const Source source;
  source.write("a/1.jpg", "other content, no other name");
  CHECK(source.names().next == nullptr);
  source.write("a/0.jpg", "new");
  CHECK(source.changes().next == nullptr);
  const CatalogChanges changes = source.names();
  REQUIRE(changes.next != nullptr);
  const Catalog scanned = *Catalog::scan(source.path(), {});
  CHECK(changes.next->entry_count() == scanned.entry_count());
  for (EntryId entry = 0; entry < scanned.entry_count(); ++entry) {
    CHECK(changes.next->path(entry) == scanned.path(entry));
    CHECK(changes.next->identity(entry) == scanned.identity(entry));
  }
}

TEST_CASE("a sample list that names what has gone leaves the catalog as it is") {
  const TempDir lists;
  const fs::path list = lists.write("list", "a/1.jpg\n");
  const Source source;
  fs::remove(source.path() / "a/1.jpg");
  const UniqueFd fd(::open(source.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto changes = find_changes(source.catalog(), fd.get(), {.next = CatalogOptions{.sample_list = list}});
  REQUIRE(changes);
  CHECK(changes->vanished.size() == 1);
  CHECK(changes->next == nullptr);
}

TEST_CASE("entries of two catalogs are the same by path and kind") {
  const Source source;
  source.write("a/0.jpg", "new");
  source.write("a/1.jpg", "other content");
  source.write("c/1.jpg", "new");
  fs::remove_all(source.path() / "b/deep");
  source.write("b/deep", "a file now");
  fs::remove(source.path() / "link");
  fs::create_symlink("a/2.jpg", source.path() / "link");
  const Catalog now = *Catalog::scan(source.path(), {});
  const std::vector<EntryId> same = same_entries(source.catalog(), now);
  const auto before = [&](const char* path) { return same[now.find(path).value()]; };
  for (const char* kept : {"", "a", "a/1.jpg", "a/2.jpg", "b"}) CHECK(before(kept) == source.catalog().find(kept));
  for (const char* other : {"a/0.jpg", "b/deep", "c", "c/1.jpg"}) CHECK(before(other) == kNoEntry);
  CHECK(same[now.find(kRootEntry, "link").value()] == kNoEntry);  // it leads elsewhere
}

TEST_CASE("a source that cannot be read is an error, not a change") {
  const Source source;
  CHECK_FALSE(folders_current(source.catalog(), -1, {}));
  CHECK_FALSE(find_changes(source.catalog(), -1, {}));
}

TEST_CASE("a saved catalog serves until a folder changes or another listing is asked for") {
  const Source source;
  const TempDir places;
  const fs::path file = places.path() / "catalog";
  const UniqueFd fd(::open(source.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(open_catalog(fd.get(), {}, file));
  const fs::file_time_type saved_at = fs::last_write_time(file);

  CHECK(open_catalog(fd.get(), {}, file)->sample_count() == 3);
  CHECK(fs::last_write_time(file) == saved_at);
  CHECK(open_catalog(fd.get(), {.listing = ListingRule::kSorted}, file)->sample_count() == 4);
  source.write("b/9.jpg", "new");
  CHECK(open_catalog(fd.get(), {}, file)->sample_count() == 4);
  places.write("catalog", "no catalog");
  CHECK(open_catalog(fd.get(), {}, file)->sample_count() == 4);
  CHECK(Catalog::load(file));
}

}  // namespace revalidate_test
