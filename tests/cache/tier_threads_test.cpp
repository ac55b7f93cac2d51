// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/tier_threads.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/cache/store.h"
#include "headrace/io/engine.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace tier_threads_test {
namespace {

using headrace::cache::EntryId;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::tier_thread_count;
using headrace::cache::TierKind;
using headrace::cache::TierThreads;
using headrace::cache::View;
using headrace::io::Buffer;
using headrace::io::Engine;
using headrace::io::IoThread;
using headrace::io::Operation;
using headrace::io::Result;
using headrace::io::UniqueFd;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

std::unique_ptr<TierThreads> start(unsigned count) {
  auto threads = TierThreads::start({.count = count});
  REQUIRE_MESSAGE(threads.has_value(), threads.error().message());
  return std::move(*threads);
}

// Whoever comes waits here until `count` have come; false: the others did not come for a minute.
class Meeting {
 public:
  explicit Meeting(std::size_t count) : missing_(count) {}
  bool come() {
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) all_here_.notify_all();
    return all_here_.wait_for(lock, std::chrono::minutes(1), [this] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t missing_;
};

TEST_CASE("a tier is read by a thread for every four processors, four at most, and a hard disk by one") {
  CHECK(tier_thread_count(TierKind::kSsd, 0) == 1);  // the number is not known
  CHECK(tier_thread_count(TierKind::kSsd, 2) == 1);
  CHECK(tier_thread_count(TierKind::kSsd, 8) == 2);
  CHECK(tier_thread_count(TierKind::kSsd, 15) == 3);
  CHECK(tier_thread_count(TierKind::kSsd, 128) == 4);
  CHECK(tier_thread_count(TierKind::kHdd, 128) == 1);
}

TEST_CASE("where another thread cannot be started, the first ones read the tier alone") {
  unsigned started = 0;
  const auto two_only = [&started]() -> Result<std::unique_ptr<Engine>> {
    if (started++ < 2) return headrace::io::open_engine({});
    return headrace::io::system_error(EAGAIN, "another engine");
  };
  auto threads = TierThreads::start({.count = 4, .make_engine = two_only});
  REQUIRE_MESSAGE(threads.has_value(), threads.error().message());
  CHECK((*threads)->count() == 2);
  started = 2;
  CHECK_FALSE(TierThreads::start({.count = 4, .make_engine = two_only}).has_value());
}

TEST_CASE("reads go to the thread that has the fewest, and around the writer while that writes") {
  const auto threads = start(3);
  const IoThread* const writer = &threads->writer();
  TierThreads::Turn writing = threads->take_turn_of_writer();
  CHECK(&writing.thread() == writer);
  TierThreads::Turn first = threads->take_turn();
  const TierThreads::Turn second = threads->take_turn();
  const std::set<const IoThread*> all{writer, &first.thread(), &second.thread()};
  CHECK(all.size() == 3);
  const IoThread* const free_again = &first.thread();
  first = {};
  const TierThreads::Turn third = threads->take_turn();
  CHECK(&third.thread() == free_again);
  TierThreads::Turn moved = std::move(writing);
  moved = {};
  CHECK(&threads->take_turn().thread() == writer);
}

// One read of a file, whose completion waits for those of the others.
struct MeetingRead {
  Operation operation;
  TierThreads::Turn turn;
  Meeting* meeting = nullptr;
  std::promise<bool> met;
};

TEST_CASE("what a read brings is checked and handed over beside what others bring") {
  const TempDir folder;
  folder.write("file", as_text(pattern_bytes(4096, 1)));
  const UniqueFd fd(::open((folder.path() / "file").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd.valid());
  const auto threads = start(3);
  threads->register_file(fd.get());
  Meeting meeting(3);
  std::vector<MeetingRead> reads(3);
  for (MeetingRead& read : reads) {
    read.operation = Operation::read(fd.get(), 0, 4096, *Buffer::allocate(4096));
    read.operation.context = &read;
    read.operation.on_complete = [](Operation& operation, Result<std::uint64_t> bytes) {
      MeetingRead& self = *static_cast<MeetingRead*>(operation.context);
      const bool all_came = self.meeting->come();
      self.met.set_value(all_came && bytes == 4096U);
    };
    read.meeting = &meeting;
    read.turn = threads->take_turn();
    read.turn.thread().submit(read.operation);
  }
  for (MeetingRead& read : reads) CHECK(read.met.get_future().get());
  threads->settle();
}

TEST_CASE("a file stays open until no thread has it registered") {
  const auto threads = start(3);
  for (unsigned busy = 0; busy < 3; ++busy) {
    std::vector<TierThreads::Turn> turns;
    for (unsigned i = 0; i <= busy; ++i) turns.push_back(threads->take_turn());
    std::promise<void> goes_on;
    turns.back().thread().post([&goes_on] { goes_on.get_future().wait(); });
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> watched = owner;
    threads->unregister_file(-1, std::exchange(owner, nullptr));
    CHECK_FALSE(watched.expired());
    goes_on.set_value();
    while (!watched.expired()) std::this_thread::yield();
  }
  threads->stop();
}

std::string text_of(const View& view) {
  return {reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()};
}

// Every thread of the tier reads while its writer fills, and each byte is compared.
TEST_CASE("several threads read a tier that fills, with right bytes only") {
  constexpr SampleIndex kFiles = 120;
  const TempDir source;
  const TempDir scratch;
  std::vector<std::string> contents;
  for (std::size_t i = 0; i < kFiles; ++i) {
    contents.emplace_back(as_text(pattern_bytes(10'000 + i * 977 % 60'000, i)));
    source.write("class/" + std::to_string(i) + ".jpg", contents.back());
  }
  StoreOptions options;
  options.source = source.path();
  options.ram_bytes = 1 << 20;  // less than the files, so that the tier is read
  options.tiers = {{.path = scratch.path() / "tier", .budget_bytes = 64 << 20}};
  auto store = Store::open(options);
  REQUIRE_MESSAGE(store.has_value(), store.error().message());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (SampleIndex reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      for (SampleIndex read = 0; read < 4 * kFiles; ++read) {
        const EntryId entry = (*store)->catalog().sample_entry((read + 31 * reader) % kFiles);
        const std::string name = std::filesystem::path((*store)->catalog().path(entry)).stem();
        const Result<View> view = (*store)->read(entry);
        const std::string& content = contents[std::stoul(name)];
        if (!view || text_of(*view) != content) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong.load() == 0);
  const auto tier = (*store)->stats().tiers[1];
  CHECK(tier.hits > 0);
  CHECK(tier.writes > 0);
  CHECK(tier.corrupt == 0);
}

}  // namespace

}  // namespace tier_threads_test
