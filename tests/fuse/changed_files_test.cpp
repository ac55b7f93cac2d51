// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/changed_files.h"

#include <set>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "fuse/mounted.h"

namespace headrace::fuse::changed_files_test {
namespace {

using cache::EntryId;
using test::Mounted;

TEST_CASE("a successor's store is told of every file that changed, as it is now") {
  Mounted source;
  source.write_samples(4, 10'000);
  source.open_store();
  cache::Store& store = source.store();
  const auto entry = [&](cache::SampleIndex sample) { return store.catalog().sample_entry(sample); };
  std::vector<ChangedFile> records(store.catalog().entry_count());
  std::uint64_t count = 0;
  Inodes inodes(store.catalog());
  {
    ChangedFiles changed(store.catalog(), records, count);
    changed.note(entry(0), cache::Identity{.size_bytes = 1, .mtime_ns = 2, .inode = 3}, inodes);
    changed.note(entry(0), cache::Identity{.size_bytes = 4, .mtime_ns = 5, .inode = 6}, inodes);
    changed.note_vanished(entry(1));
    changed.note_attributes(entry(0), {.mode = S_IFREG | 0600, .uid = 7, .gid = 8}, inodes);
    changed.note_attributes(cache::kRootEntry, {.mode = S_IFDIR | 0700, .uid = 7, .gid = 8}, inodes);
  }
  CHECK(count == 3);
  const cache::Identity last{.size_bytes = 4, .mtime_ns = 5, .inode = 6};
  CHECK(inodes.stands_for(inodes.of(entry(0)), last));
  CHECK_FALSE(inodes.stands_for(std::uint64_t{entry(0)} + 1, last));
  CHECK_FALSE(inodes.is_current(std::uint64_t{entry(0)} + 1));
  CHECK(inodes.of(entry(1)) == std::uint64_t{entry(1)} + 1);
  Inodes of_successor(store.catalog());
  ChangedFiles(store.catalog(), records, count).tell(store, of_successor);
  CHECK(of_successor.of(entry(0)) == inodes.of(entry(0)));
  CHECK(of_successor.stands_for(inodes.of(entry(0)), last));
  CHECK(store.identity(entry(0)).value() == cache::Identity{.size_bytes = 4, .mtime_ns = 5, .inode = 6});
  CHECK(store.attributes(entry(0)).mode == (S_IFREG | 0600));
  CHECK(store.attributes(cache::kRootEntry).uid == 7);
  CHECK(store.identity(entry(1)).error().code == io::ErrorCode::kNotFound);
  CHECK(store.identity(entry(2)).value() == store.catalog().identity(entry(2)));
  CHECK(store.attributes(entry(2)) == store.catalog().attributes(entry(2)));
}

TEST_CASE("a file that has vanished and comes back, or is as it was again, has a number that was never given out") {
  Mounted source;
  source.write_samples(1, 10'000);
  source.open_store();
  const cache::Catalog& catalog = source.store().catalog();
  const EntryId entry = catalog.sample_entry(0);
  std::vector<ChangedFile> records(catalog.entry_count());
  std::uint64_t count = 0;
  Inodes inodes(catalog);
  ChangedFiles changed(catalog, records, count);
  std::set<std::uint64_t> given = {inodes.of(entry)};
  changed.note(entry, {.size_bytes = 1, .mtime_ns = 2, .inode = 3}, inodes);
  CHECK(given.insert(inodes.of(entry)).second);
  changed.note(entry, catalog.identity(entry), inodes);
  CHECK(given.insert(inodes.of(entry)).second);
  changed.note_vanished(entry);
  changed.note(entry, catalog.identity(entry), inodes);
  CHECK(given.insert(inodes.of(entry)).second);
  CHECK(inodes.entry_of(inodes.of(entry)) == entry);
}

// A process may die between any two writes.
TEST_CASE("a record whose writing was cut short says what it said before") {
  Mounted source;
  source.write_samples(2, 10'000);
  source.open_store();
  cache::Store& store = source.store();
  const EntryId entry = store.catalog().sample_entry(0);
  std::vector<ChangedFile> records(store.catalog().entry_count());
  std::uint64_t count = 0;
  Inodes inodes(store.catalog());
  ChangedFiles(store.catalog(), records, count)
      .note(entry, cache::Identity{.size_bytes = 1, .mtime_ns = 2, .inode = 3}, inodes);
  records[0].versions[1 - records[0].current].identity.size_bytes = 99;
  records[1].entry = store.catalog().sample_entry(1);
  ChangedFiles(store.catalog(), records, count).tell(store, inodes);
  CHECK(store.identity(entry)->size_bytes == 1);
  CHECK(store.identity(store.catalog().sample_entry(1))->size_bytes == 10'000);
}

}  // namespace
}  // namespace headrace::fuse::changed_files_test
