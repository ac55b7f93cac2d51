// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/look_ahead.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <sys/mount.h>

#include "fuse/mounted.h"

namespace headrace::fuse {
namespace {

namespace fs = std::filesystem;
using cache::EntryId;
using test::Mounted;
using test::need_fuse;
using test::read_file;

// As a loader does.
void read_in_a_row(LookAhead& look_ahead, EntryId first, EntryId count) {
  for (EntryId entry = first; entry < first + count; ++entry) {
    static_cast<void>(look_ahead.on_lookup(entry));
    look_ahead.on_read(entry);
  }
}

// How many of `count` lookups, none of them followed by a READ, were answered with a fetch.
unsigned fetches_unread(LookAhead& look_ahead, EntryId count) {
  unsigned fetches = 0;
  for (EntryId entry = 1000; entry < 1000 + count; ++entry) fetches += look_ahead.on_lookup(entry) ? 1 : 0;
  return fetches;
}

TEST_CASE("what is looked up is fetched once lookups were followed by READs, and no more once they are not") {
  LookAhead look_ahead;
  CHECK(fetches_unread(look_ahead, 100) == 0);
  read_in_a_row(look_ahead, 0, 100);
  const unsigned fetches = fetches_unread(look_ahead, 1000);
  CHECK(fetches >= 8);
  CHECK(fetches <= 16);
  read_in_a_row(look_ahead, 0, 100);
  CHECK(look_ahead.on_lookup(5));
}

TEST_CASE("readers side by side are recognised, and their READs may come in another order") {
  LookAhead look_ahead;
  for (EntryId entry = 0; entry < 100; entry += 4) {
    for (EntryId reader = 0; reader < 4; ++reader) static_cast<void>(look_ahead.on_lookup(entry + reader));
    for (EntryId reader = 4; reader-- > 0;) look_ahead.on_read(entry + reader);
  }
  CHECK(look_ahead.on_lookup(200));
}

TEST_CASE("what was fetched is there for its READ once, and goes with later lookups") {
  Mounted source;
  source.write_samples(4, 10'000);
  source.open_store();
  cache::Store& store = source.store();
  const EntryId entry = store.catalog().sample_entry(1);
  LookAhead look_ahead;
  const auto fetch = [&] { look_ahead.keep(entry, std::move(store.read(entry).value())); };

  static_cast<void>(look_ahead.on_lookup(entry));
  fetch();
  CHECK(look_ahead.waits(entry));
  look_ahead.on_read(entry);
  CHECK_FALSE(look_ahead.waits(entry));
  CHECK(look_ahead.end_read(entry).bytes().size() == 10'000);
  CHECK(look_ahead.end_read(entry).bytes().empty());

  static_cast<void>(look_ahead.on_lookup(entry));
  look_ahead.on_read(entry);
  fetch();  // ends between the READ's coming and its question to the store
  CHECK(look_ahead.end_read(entry).bytes().size() == 10'000);
  fetch();  // the READ was faster
  look_ahead.on_read(entry);
  CHECK(look_ahead.end_read(entry).bytes().empty());

  static_cast<void>(look_ahead.on_lookup(entry));
  fetch();
  static_cast<void>(fetches_unread(look_ahead, 8));
  look_ahead.on_read(entry);
  CHECK(look_ahead.end_read(entry).bytes().empty());
}

// So that each is looked up. A remount drops the names of this mount alone; drop_caches takes pages from the tests that
// run beside this one.
void forget_names(const Mounted& mounted) {
  REQUIRE(::mount(nullptr, mounted.file("").c_str(), nullptr, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) ==
          0);
}

TEST_CASE("files read one after the other through a mount are fetched once each") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  constexpr unsigned kCount = 200;
  mounted.write_samples(kCount, 20'000);
  mounted.start();
  mounted.settle();
  forget_names(mounted);
  for (unsigned i = 0; i < kCount; ++i) {
    CHECK(fs::file_size(mounted.file(Mounted::sample_name(i))) == 20'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the fetch that the lookup began ends meanwhile
    CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, 20'000));
  }
  CHECK(mounted.requests("LOOKUP") > kCount / 2);
  // On a slow machine a READ may come just as its fetch ends, and fetch anew.
  const std::uint64_t fetches = mounted.store().stats().tiers.back().hits;
  CHECK(fetches >= kCount);
  CHECK(fetches <= kCount + kCount / 10);
}

}  // namespace
}  // namespace headrace::fuse
