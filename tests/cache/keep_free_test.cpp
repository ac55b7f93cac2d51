// SPDX-License-Identifier: Apache-2.0
// A disk tier leaves free what is to stay free of its file system.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "headrace/cache/store.h"

#include "support/temp_dir.h"

namespace keep_free_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::TierStats;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::skip;
using headrace::test::TempDir;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kKeepFree = 32 * kMiB;

// A file system of 64 MiB of its own, on which a tier of 48 MiB is to leave 32 MiB free.
class Disk {
 public:
  Disk() {
    if (::geteuid() != 0) skip("needs root");
    REQUIRE(::mount("tmpfs", path().c_str(), "tmpfs", 0, "size=64M") == 0);
  }
  ~Disk() { ::umount2(path().c_str(), MNT_DETACH); }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  [[nodiscard]] const fs::path& path() const { return point_.path(); }
  [[nodiscard]] std::uint64_t free_bytes() const {
    struct statvfs status {};
    REQUIRE(::statvfs(path().c_str(), &status) == 0);
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  }
  // What somebody else puts there.
  void fill(std::uint64_t bytes) const { std::ofstream(path() / "other") << std::string(bytes, 'x'); }

 private:
  TempDir point_;
};

struct Fixture {
  Fixture() {
    for (std::size_t i = 0; i < 44; ++i) {
      contents.emplace_back(as_text(pattern_bytes(kMiB - 8192, i)));
      static_cast<void>(source.write(std::string("a/") + static_cast<char>('A' + i) + ".jpg", contents.back()));
    }
    options.source = source.path();
    options.tiers = {{.kind = TierKind::kSsd,
                      .path = disk.path() / "tier",
                      .budget_bytes = 48 * kMiB,
                      .keep_free_bytes = kKeepFree}};
    open();
  }
  void open() {
    store.reset();
    auto opened = Store::open(options);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
    store = std::move(*opened);
  }
  // How many the tier took.
  int warm() const {
    int taken = 0;
    for (SampleIndex i = 0; i < store->catalog().sample_count(); ++i) {
      std::promise<Status> promise;
      store->warm(store->catalog().sample_entry(i), [&](Status status) { promise.set_value(std::move(status)); });
      taken += promise.get_future().get().has_value() ? 1 : 0;
    }
    return taken;
  }
  void check_bytes() const {
    for (SampleIndex i = 0; i < store->catalog().sample_count(); ++i) {
      auto view = store->read(store->catalog().sample_entry(i));
      REQUIRE(view.has_value());
      REQUIRE(std::string(reinterpret_cast<const char*>(view->bytes().data()), view->bytes().size()) == contents[i]);
    }
  }
  [[nodiscard]] TierStats tier() const { return store->stats().tiers[1]; }

  Disk disk;
  TempDir source;
  std::vector<std::string> contents;
  StoreOptions options;
  std::unique_ptr<Store> store;
};

// Half a minute is a hang on any machine.
bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 300 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return condition();
}

}  // namespace

TEST_CASE("a tier leaves free what is to stay free, gives room back to others, and takes it again") {
  Fixture fixture;
  const int taken = fixture.warm();
  CHECK(taken > 20);
  CHECK(taken < 33);
  CHECK(fixture.disk.free_bytes() >= kKeepFree);
  const TierStats full = fixture.tier();
  CHECK(full.state == "short: 32 MiB of its file system are to stay free");
  CHECK(full.asked_bytes == 48 * kMiB);
  CHECK(full.keep_free_bytes == kKeepFree);
  CHECK(full.budget_bytes <= 32 * kMiB);
  CHECK(full.budget_bytes >= 26 * kMiB);
  fixture.check_bytes();

  fixture.disk.fill(18 * kMiB);
  CHECK(wait_until([&] { return fixture.disk.free_bytes() >= kKeepFree; }));
  CHECK(fixture.tier().samples > 0);  // no more went than had to
  CHECK(fixture.tier().used_bytes >= 9 * kMiB);
  CHECK(fixture.tier().budget_bytes <= 14 * kMiB);
  fixture.check_bytes();

  fixture.disk.fill(31 * kMiB);  // nothing is left for the tier
  CHECK(wait_until([&] { return fixture.tier().used_bytes == 0; }));
  CHECK(fixture.tier().budget_bytes == 0);
  fixture.check_bytes();
  fixture.open();  // and so at the next start
  CHECK(fixture.tier().budget_bytes == 0);
  CHECK(fixture.warm() == 0);

  fs::remove(fixture.disk.path() / "other");
  CHECK(wait_until([&] { return fixture.tier().state == "ok"; }));
  CHECK(fixture.warm() > 20);
  CHECK(fixture.disk.free_bytes() >= kKeepFree);
  fixture.check_bytes();
}

TEST_CASE("a tier does not lose and fill segments where others write some and remove some") {
  Fixture fixture;
  fixture.warm();
  const auto files = fs::directory_iterator(fixture.options.tiers.front().path);
  const auto segments = std::count_if(begin(files), end(files), [](const fs::directory_entry& file) {
    return file.path().filename().string().starts_with("segment-") && file.path().extension() != ".index";
  });
  const std::uint64_t segment_bytes = fixture.tier().budget_bytes / static_cast<std::uint64_t>(segments);
  const std::uint64_t spare = fixture.disk.free_bytes() - kKeepFree;
  CHECK(spare >= segment_bytes);  // room for one that is not made
  CHECK(spare < 2 * segment_bytes);
  const std::uint64_t held = fixture.tier().samples;
  CHECK(held > 20);
  fixture.disk.fill(spare + segment_bytes / 2);
  CHECK(wait_until([&] { return fixture.disk.free_bytes() >= kKeepFree; }));
  const std::uint64_t left = fixture.tier().samples;
  CHECK(left < held);
  fixture.disk.fill(spare - segment_bytes / 2);  // one segment would have room now, but not two
  fixture.open();
  fixture.warm();
  CHECK(fixture.tier().samples <= left);
  fixture.disk.fill(0);
  fixture.open();
  fixture.warm();
  CHECK(fixture.tier().samples > left);
}

}  // namespace keep_free_test
