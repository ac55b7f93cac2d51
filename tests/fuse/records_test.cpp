// SPDX-License-Identifier: Apache-2.0
// Records of a large file, read through the mount: what they cost the source, and how they are pushed along an order.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "headrace/cache/record_map.h"
#include "headrace/io/unique_fd.h"

#include "cache/packs.h"
#include "fuse/hanging_store.h"
#include "fuse/mounted.h"

namespace headrace::fuse::records_test {
namespace {

using io::UniqueFd;
using test::Mounted;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kFileBytes = 64 * kMiB;
constexpr std::uint64_t kRecordBytes = 8192;
constexpr std::uint64_t kRecords = kFileBytes / kRecordBytes;
constexpr std::uint64_t kMarked = 64;  // every so many records begin with their number

// Ends the case as skipped without FUSE. A sparse file of 64 MiB, of which nothing can stay in the store.
void start(Mounted& mounted) {
  test::need_fuse();
  const std::filesystem::path file = mounted.source().write("pack.bin", "");
  std::filesystem::resize_file(file, kFileBytes);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  for (std::uint64_t record = 0; record < kRecords; record += kMarked) {
    stream.seekp(static_cast<std::streamoff>(record * kRecordBytes));
    stream << record;
  }
  stream.close();
  mounted.start();
  mounted.settle();
}

UniqueFd open_pack(const Mounted& mounted) {
  UniqueFd file(::open(mounted.file("pack.bin").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file.valid());
  return file;
}

std::uint64_t source_bytes(const Mounted& mounted) {
  return mounted.store().stats().tiers.back().hit_bytes;
}

TEST_CASE("records read at random cost the source their bytes and no more") {
  Mounted mounted;
  start(mounted);
  const UniqueFd file = open_pack(mounted);
  REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM) == 0);  // the kernel asks for what is read, no more
  const std::uint64_t before = source_bytes(mounted);
  std::set<std::uint64_t> records;
  std::mt19937_64 random(1);
  while (records.size() < 100) {
    const std::uint64_t record = random() % (kRecords / kMarked) * kMarked;
    if (!records.insert(record).second) continue;
    std::string bytes(kRecordBytes, '?');
    REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(record * kRecordBytes)) ==
            static_cast<ssize_t>(kRecordBytes));
    REQUIRE(bytes.c_str() == std::to_string(record));
  }
  CHECK(source_bytes(mounted) - before == records.size() * kRecordBytes);
}

TEST_CASE("a record of a mapped file costs the source what the kernel reads around a page, not a chunk") {
  Mounted mounted;
  start(mounted);
  const UniqueFd file = open_pack(mounted);
  void* mapped = ::mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, file.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  const std::uint64_t before = source_bytes(mounted);
  constexpr std::uint64_t kFaults = 16;
  for (std::uint64_t i = 0; i < kFaults; ++i) {  // 4 MiB from each other
    const std::uint64_t record = (i * 7 % kFaults) * (kRecords / kFaults) + kMarked;
    const char* bytes = static_cast<const char*>(mapped) + record * kRecordBytes;
    CHECK(bytes == std::to_string(record));
  }
  ::munmap(mapped, kFileBytes);
  CHECK(source_bytes(mounted) - before <= kFaults * (128 << 10));
}

TEST_CASE("a large file that is read from its start to its end comes by chunks") {
  Mounted mounted;
  start(mounted);
  const std::uint64_t before = mounted.store().stats().tiers.back().hits;
  CHECK(test::read_file(mounted.file("pack.bin")).size() == kFileBytes);
  const std::uint64_t reads = mounted.store().stats().tiers.back().hits - before;
  CHECK(reads < 2 * kFileBytes / (4 * kMiB));
  CHECK(mounted.requests("READ") > reads);
}

// A pack whose records are pushed. Each page says which page it is, of which version of the pack.
class Pack {
 public:
  static constexpr std::uint64_t kBytes = 12 * kMiB;
  static constexpr std::uint64_t kRecordCount = kBytes / kRecordBytes;

  // An empty spec: the order is to be found out.
  explicit Pack(std::uint64_t budget_bytes, std::string_view spec = "torch-distributed:seed=3") {
    test::need_fuse();
    path_ = mounted.source().write("pack.bin", content(0));
    mounted.open_store();
    const UniqueFd folder(::open(mounted.source().path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto map = cache::open_record_map(folder.get(), "pack.bin", "stride=8192");
    REQUIRE_MESSAGE(map.has_value(), map.error().message());
    mounted.options.records =
        headrace::test::set_of(mounted.store().catalog().find("pack.bin").value(), std::move(*map));
    if (!spec.empty()) order = cache::make_order(spec, {.sample_count = kRecordCount}).value();
    if (order) mounted.options.orders.given = {order};
    mounted.options.orders.learn = spec.empty();
    mounted.options.ram_bytes = budget_bytes;
    mounted.start();
    mounted.settle();
  }

  void change() { std::ofstream(path_, std::ios::in | std::ios::out | std::ios::binary) << content(1); }

  static std::string page(std::uint64_t number, unsigned version) {
    std::string text = std::to_string(number) + (version == 0 ? " of the first" : " of the second");
    text.resize(4096, version == 0 ? 'a' : 'b');
    return text;
  }
  static std::string record(std::uint64_t number, unsigned version) {
    return page(2 * number, version) + page(2 * number + 1, version);
  }

  void push_all() {
    REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  Mounted mounted;
  std::shared_ptr<const cache::Order> order;

 private:
  static std::string content(unsigned version) {
    std::string bytes;
    for (std::uint64_t number = 0; number < 2 * kRecordCount; ++number) bytes += page(number, version);
    return bytes;
  }
  std::filesystem::path path_;
};

std::string read_record(const UniqueFd& file, std::uint64_t record) {
  std::string bytes(kRecordBytes, '?');
  REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(record * kRecordBytes)) ==
          static_cast<ssize_t>(kRecordBytes));
  return bytes;
}

TEST_CASE("records lie in the page cache before they are read along the order, within a quarter of the pack") {
  test::need_fuse();
  test::until_pages_stay([] {
    Pack pack(Pack::kBytes / 4);
    const UniqueFd file = open_pack(pack.mounted);
    const std::vector<cache::SampleIndex> epoch = pack.order->epoch(0).value();
    for (const cache::SampleIndex record : epoch) {
      pack.push_all();
      REQUIRE(read_record(file, record) == Pack::record(record, 0));
      const MountStats stats = pack.mounted.mount().stats();
      REQUIRE(stats.held_bytes <= stats.budget_bytes);
    }
    const MountStats stats = pack.mounted.mount().stats();
    CHECK(stats.strays == 0);
    CHECK(stats.evicted_samples > Pack::kRecordCount / 2);
    CHECK(source_bytes(pack.mounted) < 2 * Pack::kBytes);
    // One READ of 16 records is let through.
    return pack.mounted.requests("READ") <= epoch.size() / 8 && stats.hits == epoch.size();
  });
}

std::uint64_t store_reads(const Mounted& mounted) {
  std::uint64_t reads = 0;
  for (const auto& tier : mounted.store().stats().tiers) reads += tier.hits;
  return reads;
}

TEST_CASE("a beacon is answered from the daemon's memory once, and lies in the page cache alone from then on") {
  constexpr std::uint64_t kRead = 64;
  Pack pack(Pack::kBytes / 4);
  pack.push_all();
  const UniqueFd file = open_pack(pack.mounted);
  const std::vector<cache::SampleIndex> epoch = pack.order->epoch(0).value();
  for (std::uint64_t i = 0; i < kRead; ++i) REQUIRE(read_record(file, epoch[i]) == Pack::record(epoch[i], 0));
  pack.push_all();
  REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
  const std::uint64_t before = store_reads(pack.mounted);
  for (std::uint64_t i = 0; i < kRead; ++i) {
    std::string bytes(4096, '?');
    REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(epoch[i] * kRecordBytes)) == 4096);
    REQUIRE(bytes == Pack::page(2 * epoch[i], 0));
  }
  CHECK(store_reads(pack.mounted) - before >= kRead);
}

TEST_CASE("a mapped record is read where it was pushed") {
  Pack pack(Pack::kBytes / 4);
  const UniqueFd file = open_pack(pack.mounted);
  void* mapped = ::mmap(nullptr, Pack::kBytes, PROT_READ, MAP_SHARED, file.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  const std::vector<cache::SampleIndex> epoch = pack.order->epoch(0).value();
  for (const cache::SampleIndex record : epoch) {
    const char* bytes = static_cast<const char*>(mapped) + record * kRecordBytes;
    if (std::string_view(bytes, kRecordBytes) != Pack::record(record, 0)) FAIL("record " << record);
  }
  ::munmap(mapped, Pack::kBytes);
}

TEST_CASE("a pack that changes while its records are pushed is never shown as a mixture") {
  Pack pack(Pack::kBytes / 2);
  pack.push_all();
  const UniqueFd before = open_pack(pack.mounted);
  pack.change();
  REQUIRE(pack.mounted.store().look_at(pack.mounted.options.records->packs()[0].entry));
  pack.mounted.mount().wait_until_forgotten();
  const UniqueFd file = open_pack(pack.mounted);
  for (std::uint64_t record = 0; record < Pack::kRecordCount; ++record)
    REQUIRE(read_record(file, record) == Pack::record(record, 1));
  // Who has the version before open goes on with what the kernel has of it, and gets nothing else.
  for (std::uint64_t record = 0; record < Pack::kRecordCount; ++record) {
    std::string bytes(kRecordBytes, '?');
    const ssize_t got = ::pread(before.get(), bytes.data(), bytes.size(), static_cast<off_t>(record * kRecordBytes));
    if (got > 0 && bytes.substr(0, static_cast<std::size_t>(got)) !=
                       Pack::record(record, 0).substr(0, static_cast<std::size_t>(got)))
      FAIL("record " << record << " of the version before");
  }
  CHECK(pack.mounted.mount().stats().held_samples == 0);
}

bool says(const MountStats& stats, std::string_view fallback) {
  return std::ranges::any_of(stats.fallbacks, [&](const std::string& line) { return line.starts_with(fallback); });
}

void check_plain_from_now_on(Pack& pack, std::uint64_t records) {
  REQUIRE(pack.mounted.store().look_at(pack.mounted.options.records->packs()[0].entry));
  pack.mounted.mount().wait_until_forgotten();
  const UniqueFd file = open_pack(pack.mounted);
  for (std::uint64_t record = 0; record < records; ++record)
    REQUIRE(read_record(file, record) == Pack::record(record, 0));
  char after = '?';
  CHECK(::pread(file.get(), &after, 1, static_cast<off_t>(records * kRecordBytes)) == 0);
  const MountStats stats = pack.mounted.mount().stats();
  CHECK(stats.held_samples == 0);
  CHECK(says(stats, "pack.bin: has changed"));
}

TEST_CASE("a pack that grows while its records are pushed is read plainly, with what it has gained") {
  Pack pack(Pack::kBytes / 2);
  pack.push_all();
  std::ofstream(pack.path(), std::ios::app | std::ios::binary) << Pack::record(Pack::kRecordCount, 0);
  check_plain_from_now_on(pack, Pack::kRecordCount + 1);
}

TEST_CASE("a pack that is cut while its records are pushed is read plainly, as far as it goes") {
  Pack pack(Pack::kBytes / 2);
  pack.push_all();
  std::filesystem::resize_file(pack.path(), Pack::kBytes / 2);
  check_plain_from_now_on(pack, Pack::kRecordCount / 2);
}

TEST_CASE("records that are larger than the memory to push to are read from the source, which is said") {
  test::need_fuse();
  Mounted mounted;
  mounted.source().write("pack.bin", std::string(12 * kMiB, 'a'));
  mounted.open_store();
  auto map = cache::RecordMap::strided(12 * kMiB, 0, 4 * kMiB, 3).value();
  map.set_made_from(mounted.store().identity(mounted.store().catalog().find("pack.bin").value()).value());
  mounted.options.records = headrace::test::set_of(mounted.store().catalog().find("pack.bin").value(), std::move(map));
  mounted.options.orders.given = {cache::make_order("sequential", {.sample_count = 3}).value()};
  mounted.options.ram_bytes = 2 * kMiB;
  mounted.start();
  CHECK(says(mounted.mount().stats(), "3 of 3 records are larger"));
  CHECK(test::read_file(mounted.file("pack.bin")) == std::string(12 * kMiB, 'a'));
}

TEST_CASE("the order of records is learned from what is read of the pack, and they are pushed along it") {
  Pack pack(Pack::kBytes / 4, "");
  const UniqueFd file = open_pack(pack.mounted);
  const auto order = cache::make_order("torch-distributed:seed=77", {.sample_count = Pack::kRecordCount}).value();
  // The search has idle priority: on a busy machine it takes minutes.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(180);
  MountStats stats;
  const auto is_followed = [&stats] { return !stats.order.empty() && stats.hits > Pack::kRecordCount / 2; };
  for (std::uint64_t epoch = 0; !is_followed() && std::chrono::steady_clock::now() < deadline; ++epoch) {
    const std::vector<cache::SampleIndex> samples = order->epoch(epoch).value();
    for (const cache::SampleIndex record : samples) {
      // Without this the reader may stay the faster one for ever.
      if (!pack.mounted.mount().stats().order.empty()) pack.push_all();
      REQUIRE(read_record(file, record) == Pack::record(record, 0));
    }
    stats = pack.mounted.mount().stats();
  }
  CHECK(stats.hits > Pack::kRecordCount / 2);
  CHECK(stats.order.starts_with("torch-distributed"));  // seed 0 in its epoch 77 is the same
}

TEST_CASE("records that were looked up in another version of the pack are not pushed, and the pack is read plainly") {
  test::need_fuse();
  Mounted mounted;
  mounted.source().write("pack.bin", std::string(12 * kMiB, 'a'));
  mounted.open_store();
  auto map = cache::RecordMap::strided(12 * kMiB, 0, kRecordBytes, 12 * kMiB / kRecordBytes).value();
  map.set_made_from({.size_bytes = 12 * kMiB});
  mounted.options.records = headrace::test::set_of(mounted.store().catalog().find("pack.bin").value(), std::move(map));
  mounted.options.orders.given = {cache::make_order("sequential", {.sample_count = 12 * kMiB / kRecordBytes}).value()};
  mounted.options.ram_bytes = 4 * kMiB;
  mounted.start();
  CHECK(mounted.mount().stats().fallbacks.size() == 1);
  CHECK(read_record(open_pack(mounted), 5) == std::string(kRecordBytes, 'a'));
  CHECK(mounted.mount().stats().order.empty());
}

// The catalog has 'a', the source 'b' by now.
void start_changed(Mounted& mounted, bool map_is_new) {
  test::need_fuse();
  const std::filesystem::path file = mounted.source().write("pack.bin", std::string(12 * kMiB, 'a'));
  mounted.open_store();
  const auto make_map = [&mounted] {
    const UniqueFd folder(::open(mounted.source().path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto map = cache::open_record_map(folder.get(), "pack.bin", "stride=8192");
    REQUIRE_MESSAGE(map.has_value(), map.error().message());
    mounted.options.records =
        headrace::test::set_of(mounted.store().catalog().find("pack.bin").value(), std::move(*map));
  };
  if (!map_is_new) make_map();
  std::filesystem::remove(file);
  mounted.source().write("pack.bin", std::string(12 * kMiB, 'b'));
  if (map_is_new) make_map();
  mounted.options.orders.given = {cache::make_order("sequential", {.sample_count = 12 * kMiB / kRecordBytes}).value()};
  mounted.options.ram_bytes = 4 * kMiB;
  mounted.start();
}

TEST_CASE("a pack that is another one than the catalog says is read as it is now, and its records are pushed") {
  Mounted mounted;
  start_changed(mounted, true);
  CHECK(read_record(open_pack(mounted), 5) == std::string(kRecordBytes, 'b'));
  CHECK(mounted.mount().stats().fallbacks.empty());
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  CHECK(mounted.mount().stats().pushed_samples > 0);
}

TEST_CASE("a pack that changed after its records were looked up is read plainly as it is now") {
  Mounted mounted;
  start_changed(mounted, false);
  CHECK(mounted.mount().stats().fallbacks.size() == 1);
  CHECK(read_record(open_pack(mounted), 5) == std::string(kRecordBytes, 'b'));
}

TEST_CASE("a READ waits for no record whose fetch has not begun") {
  test::need_fuse();
  constexpr std::uint64_t kCount = 40;
  // As many as the store's 32 MiB hold beside what READs need. The next one is named, and waits for room.
  constexpr std::uint64_t kBegun = 23;
  Mounted mounted;
  mounted.source().write("pack.bin", std::string(kCount * kMiB, 'a'));
  mounted.open_store();
  const UniqueFd folder(::open(mounted.source().path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto map = cache::open_record_map(folder.get(), "pack.bin", "stride=1048576");
  REQUIRE_MESSAGE(map.has_value(), map.error().message());
  mounted.options.records = headrace::test::set_of(mounted.store().catalog().find("pack.bin").value(), std::move(*map));
  mounted.options.orders.given = {cache::make_order("sequential", {.sample_count = kCount}).value()};
  mounted.options.ram_bytes = 2 * kCount * kMiB;
  test::HangingStore store(mounted.store());
  store.pin_reads_ahead();
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (store.pinned_reads() < kBegun && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
  CHECK(store.pinned_reads() == kBegun);
  auto reader = std::async(std::launch::async, [&mounted] {
    const UniqueFd file(::open(mounted.file("pack.bin").c_str(), O_RDONLY | O_CLOEXEC));
    std::string bytes(4096, '?');
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), kBegun * kMiB);
    return got == static_cast<ssize_t>(bytes.size()) && bytes == std::string(bytes.size(), 'a');
  });
  const bool is_answered = reader.wait_until(deadline + std::chrono::seconds(20)) == std::future_status::ready;
  store.let_go();
  CHECK(is_answered);
  CHECK(reader.get());
}

}  // namespace
}  // namespace headrace::fuse::records_test
