// SPDX-License-Identifier: Apache-2.0
// Storage that does not answer: the mount must be able to end all the same, and nobody may hang for good.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/fuse/internal/mount_table.h"
#include "headrace/io/mutex.h"

#include "fuse/mounted.h"

namespace headrace::fuse {
namespace {

using cache::EntryId;
using cache::ReadCallback;
using cache::ReadHint;
using std::chrono::steady_clock;
using test::Mounted;
using test::need_fuse;
using test::need_root;
using test::read_file;

// Answers reads ahead at once, and reads that somebody waits for only when it is told to.
class HangingStore final : public cache::Store {
 public:
  explicit HangingStore(cache::Store& inner) : inner_(inner) {}
  ~HangingStore() override { let_go(); }

  void read_async(EntryId entry, ReadCallback done, ReadHint hint) override {
    if (hint != ReadHint::kNow) return inner_.read_async(entry, std::move(done), hint);
    io::MutexLock lock(mutex_);
    waiting_.emplace_back(entry, std::move(done));
    arrived_.notify_all();
  }
  void wait_for_a_read() {
    io::MutexLock lock(mutex_);
    while (waiting_.empty()) arrived_.wait(lock);
  }
  void let_go() {
    std::vector<std::pair<EntryId, ReadCallback>> waiting;
    {
      io::MutexLock lock(mutex_);
      waiting.swap(waiting_);
    }
    for (auto& [entry, done] : waiting) done(inner_.read(entry));
  }

  const cache::Catalog& catalog() const override { return inner_.catalog(); }
  std::shared_ptr<const io::UniqueFd> source_directory() const override { return inner_.source_directory(); }
  Result<cache::View> read(EntryId entry) override { return inner_.read(entry); }
  void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done) override {
    inner_.read_range_async(entry, offset, length, std::move(done));
  }
  void prefetch(EntryId entry, bool keep, std::function<void(Status)> done) override {
    inner_.prefetch(entry, keep, std::move(done));
  }
  void drop(EntryId entry) override { inner_.drop(entry); }
  void unkeep(EntryId entry) override { inner_.unkeep(entry); }
  void set_ram_bytes(std::uint64_t bytes) override { inner_.set_ram_bytes(bytes); }
  void set_identity(EntryId entry, const cache::Identity& identity) override { inner_.set_identity(entry, identity); }
  void set_vanished(EntryId entry) override { inner_.set_vanished(entry); }
  void warm(EntryId entry, std::function<void(Status)> done) override { inner_.warm(entry, std::move(done)); }
  bool is_on_disk(EntryId entry) const override { return inner_.is_on_disk(entry); }
  Status flush() override { return inner_.flush(); }
  cache::StoreStats stats() const override { return inner_.stats(); }

 private:
  cache::Store& inner_;
  io::Mutex mutex_;
  io::CondVar arrived_;
  std::vector<std::pair<EntryId, ReadCallback>> waiting_ HEADRACE_GUARDED_BY(mutex_);
};

TEST_CASE("a mount ends within a second though storage holds a reader up, and the answer may come later") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  std::thread reader(
      [&] { CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, 50'000)); });
  store.wait_for_a_read();
  const auto start = steady_clock::now();
  (*mount)->stop();
  CHECK(steady_clock::now() - start < std::chrono::seconds(1));
  mount->reset();
  CHECK(mounts_at(mounted.path()).empty());
  store.let_go();
  reader.join();
}

TEST_CASE("a push that waits for a page which a hanging READ has locked does not hold up the end of the mount") {
  need_fuse();
  need_root();
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  std::thread reader([&] {
    const std::string content = read_file(mounted.file(Mounted::sample_name(0)));
    // The READ is aborted, but the push that waited for it may have brought the page.
    CHECK((content.empty() || content == Mounted::sample_content(0, 50'000)));
  });
  store.wait_for_a_read();
  (*mount)->set_ram_bytes(1 << 20);  // the file that is being read is pushed too
  while ((*mount)->stats().pushed_samples == 0 && (*mount)->stats().held_samples == 0) std::this_thread::yield();
  const auto start = steady_clock::now();
  (*mount)->stop();
  CHECK(steady_clock::now() - start < std::chrono::milliseconds(1500));
  reader.join();
  mount->reset();
  CHECK(mounts_at(mounted.path()).empty());
}

}  // namespace
}  // namespace headrace::fuse
