// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/look_ahead.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <doctest/doctest.h>
#include <sys/mount.h>

#include "fuse/hanging_store.h"
#include "fuse/mounted.h"

namespace headrace::fuse::look_ahead_test {
namespace {

namespace fs = std::filesystem;
using cache::EntryId;
using test::HangingStore;
using test::Mounted;
using test::need_fuse;
using test::read_file;

constexpr std::size_t kBytes = 20'000;

// As a loader does.
void read_in_a_row(LookAhead& look_ahead, EntryId first, EntryId count) {
  for (EntryId entry = first; entry < first + count; ++entry) {
    static_cast<void>(look_ahead.on_lookup(entry));
    look_ahead.on_read(entry);
  }
}

// How many of `count` look-ups, none of them followed by a READ, ask for a fetch.
unsigned fetches_unread(LookAhead& look_ahead, EntryId count) {
  unsigned fetches = 0;
  for (EntryId entry = 1000; entry < 1000 + count; ++entry) fetches += look_ahead.on_lookup(entry) ? 1 : 0;
  return fetches;
}

TEST_CASE("what is looked up is fetched once look-ups were followed by READs, and no more once they are not") {
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

// So that each is looked up. A remount drops the names of this mount alone; drop_caches takes pages from the tests that
// run beside this one.
void forget_names(const fs::path& mount_point) {
  REQUIRE(::mount(nullptr, mount_point.c_str(), nullptr, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0);
}

template <typename Condition>
void wait_until(const Condition& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void read_samples(const Mounted& mounted, unsigned first, unsigned end) {
  for (unsigned i = first; i < end; ++i) {
    CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kBytes));
  }
}

std::uint64_t fetches(const Mounted& mounted) {
  return mounted.store().stats().tiers.back().hits;
}

TEST_CASE("a look-up without a READ begins the fetch where look-ups were followed by READs, and the READ finds it") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  constexpr unsigned kRead = 100;
  mounted.write_samples(kRead + 2, kBytes);
  mounted.start();
  mounted.settle();
  forget_names(mounted.path());
  CHECK(fs::file_size(mounted.file(Mounted::sample_name(kRead + 1))) == kBytes);  // `stat` alone: nobody reads
  read_samples(mounted, 0, kRead);
  CHECK(mounted.requests("LOOKUP") > kRead / 2);
  const std::uint64_t before = fetches(mounted);
  CHECK(before == kRead);  // each once, though a look-up and a READ asked for it
  CHECK(fs::file_size(mounted.file(Mounted::sample_name(kRead))) == kBytes);
  wait_until([&] { return fetches(mounted) > before; });
  read_samples(mounted, kRead, kRead + 1);
  CHECK(fetches(mounted) == before + 1);
}

TEST_CASE("what was pushed is not fetched when it is looked up") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  constexpr unsigned kCount = 40;
  mounted.write_samples(kCount, kBytes);
  mounted.start();
  mounted.settle();
  forget_names(mounted.path());
  read_samples(mounted, 0, kCount);  // from now on look-ups begin fetches
  mounted.mount().set_ram_bytes(64 << 20);
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  mounted.settle();
  const std::uint64_t reads = mounted.store().stats().reads;
  forget_names(mounted.path());
  for (unsigned i = 0; i < 4; ++i) CHECK(fs::file_size(mounted.file(Mounted::sample_name(i))) == kBytes);
  mounted.settle();
  CHECK(mounted.store().stats().reads == reads);
}

TEST_CASE("fetches that look-ups have begun are few, and may end after the mount") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  // The kernel may keep names that it was told to forget, and a busy session thread begins nothing: so, several rounds.
  constexpr unsigned kRounds = 10;
  constexpr unsigned kRead = 100;
  constexpr unsigned kStated = 40;
  mounted.write_samples(kRounds * (kRead + kStated), kBytes);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  wait_until([&] { return (*mount)->stats().listed; });
  unsigned next = 0;
  for (unsigned round = 0; round < kRounds && store.held_reads() == 0; ++round) {
    store.let_go();
    forget_names(mounted.path());
    for (const unsigned end = next + kRead; next < end; ++next) {
      store.hold_reads();
      std::thread reader([&, i = next] {
        CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kBytes));
      });
      store.wait_for_a_read();
      store.let_go();
      reader.join();
    }
    store.hold_look_aheads();
    for (const unsigned end = next + kStated; next < end; ++next) {
      CHECK(fs::file_size(mounted.file(Mounted::sample_name(next))) == kBytes);
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(100));  // the last look-up was answered before its fetch began
  }
  CHECK(store.held_reads() > 0);
  CHECK(store.held_reads() <= 8);
  mount->reset();
  store.let_go();  // their answers come after the mount has gone
}

}  // namespace
}  // namespace headrace::fuse::look_ahead_test
