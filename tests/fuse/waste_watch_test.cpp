// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/waste_watch.h"

#include <cstdint>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "fuse/mounted.h"

namespace headrace::fuse::waste_watch_test {
namespace {

using test::Mounted;
using test::need_fuse;
using test::read_file;

constexpr std::uint64_t kHeld = 100;
constexpr std::uint64_t kBound = 64 + kHeld;  // what may be wasted before a pause

// A loader that opens samples one after the other, while a constant number of them is held.
class Reader {
 public:
  WasteWatch watch;
  WasteWatch::Counts counts;

  // Nothing is fetched for it.
  void miss() {
    ++counts.opens;
    watch.note(counts);
  }
  void meet() {
    ++counts.opens;
    ++counts.met;
    watch.note(counts);
  }
  // Each open meets one sample that was fetched; that and what it passes by make way.
  void read(std::uint64_t opens, std::uint64_t in_vain_each) {
    for (; opens > 0; --opens) {
      counts.fetched += watch.is_paused() ? 0 : 1 + in_vain_each;
      watch.is_paused() ? miss() : meet();
    }
  }
  void fill() {
    counts.held = counts.fetched = kHeld;
    watch.note(counts);
  }
  // How many opens go by until reading ahead pauses, and goes on; at most `limit` each.
  std::uint64_t opens_until_pause(std::uint64_t limit = 100'000) { return opens_while(false, limit); }
  std::uint64_t opens_of_pause(std::uint64_t limit = 100'000) { return opens_while(true, limit); }

 private:
  std::uint64_t opens_while(bool paused, std::uint64_t limit) {
    std::uint64_t opens = 0;
    for (; opens < limit && watch.is_paused() == paused; ++opens) read(1, 1);
    return opens;
  }
};

TEST_CASE("a reader that meets what is fetched for it is no reason to pause, however it is held") {
  Reader reader;
  reader.watch.note({});
  reader.fill();
  reader.read(10'000, 0);
  reader.counts.held = 0;  // a plan gave way to another one
  reader.read(1, 0);
  CHECK(reader.watch.pauses() == 0);
  for (int i = 0; i < 10'000; ++i) reader.miss();
  CHECK(reader.watch.pauses() == 0);
}

TEST_CASE("what is fetched twice for each open brings a pause, once more is wasted than is held") {
  Reader reader;
  reader.fill();
  const std::uint64_t opens = reader.opens_until_pause();
  CHECK(opens >= kBound);
  CHECK(opens <= kBound * 100 / 97 + 1);  // 3 % of all opens are allowed
  CHECK(reader.watch.pauses() == 1);
  CHECK(reader.watch.opens_left() == 4 * kBound);
}

TEST_CASE("what a few opens pass by is allowed") {
  Reader reader;
  reader.fill();
  for (int i = 0; i < 1000; ++i) {
    reader.read(39, 0);
    reader.read(1, 1);  // 2.5 %
  }
  CHECK(reader.watch.pauses() == 0);
  for (int i = 0; i < 1000; ++i) {
    reader.read(19, 0);
    reader.read(1, 1);  // 5 %
  }
  CHECK(reader.watch.pauses() > 0);
}

TEST_CASE("what was saved before does not excuse what is wasted later") {
  Reader reader;
  reader.fill();
  for (int i = 0; i < 10'000; ++i) reader.meet();  // what is held is read again and again
  CHECK(reader.opens_until_pause() <= kBound * 100 / 97 + 1);
}

TEST_CASE("pauses double up to a bound, and are short again after a good time") {
  Reader reader;
  reader.fill();
  for (const std::uint64_t times : {4, 8, 16, 32, 64, 64}) {
    reader.opens_until_pause();
    CHECK(reader.opens_of_pause() == times * kBound);
  }
  reader.read(64 * kBound + 1, 0);
  CHECK(reader.opens_until_pause() > 0);
  CHECK(reader.opens_of_pause() == 4 * kBound);
}

TEST_CASE("another order ends a pause at once, and where it is lost the pause goes on") {
  Reader reader;
  reader.fill();
  reader.opens_until_pause();
  reader.watch.on_order(false);
  CHECK(reader.watch.is_paused());
  reader.watch.on_order(true);
  CHECK_FALSE(reader.watch.is_paused());
  reader.read(kBound, 0);
  reader.watch.on_order(false);
  CHECK(reader.watch.opens_left() == 3 * kBound);
  reader.watch.on_order(true);
  reader.opens_until_pause();  // it is as bad, and excuses nothing further
  CHECK(reader.watch.pauses() == 2);
  CHECK(reader.opens_of_pause() == 8 * kBound);
}

TEST_CASE("what goes from memory for another reason than a plan is not wasted") {
  Reader reader;
  reader.fill();
  reader.read(kBound - 10, 1);
  reader.watch.restart();  // a smaller budget
  reader.counts.held = 0;
  reader.read(kBound - 10, 1);
  CHECK(reader.watch.pauses() == 0);

  Reader changed;
  changed.fill();
  for (int i = 0; i < 1000; ++i) {  // files that are written anew, and fetched again
    changed.watch.on_changed_file();
    ++changed.counts.fetched;
    changed.miss();
  }
  CHECK(changed.watch.pauses() == 0);
}

constexpr unsigned kSampleCount = 600;
constexpr std::size_t kSampleBytes = 4096;

std::shared_ptr<const cache::Order> order_of(const std::string& spec) {
  return std::move(*cache::make_order(spec, {.sample_count = kSampleCount}));
}

void push_all(Mounted& mounted) {
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
}

// As a job of two nodes does whose order was given as that of one.
void read_every_other(Mounted& mounted, cache::SampleIndex first, unsigned count) {
  const cache::Catalog& catalog = mounted.store().catalog();
  for (cache::SampleIndex sample = first; sample < first + count; sample += 2) {
    const std::string path = mounted.file(catalog.path(catalog.sample_entry(sample)));
    REQUIRE(read_file(path).size() == kSampleBytes);
  }
}

TEST_CASE("a mount whose reader reads every other sample of its order stops reading ahead until another is told") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.options.ram_bytes = kSampleCount / 10 * kSampleBytes;
  mounted.options.orders.given = {order_of("sequential")};
  mounted.start();
  mounted.settle();
  constexpr unsigned kPart = 20;
  cache::SampleIndex at = 0;
  // A quarter of an epoch is enough, where all that is read ahead arrives before it is passed.
  for (unsigned parts = 0; parts < 1000 && mounted.mount().stats().read_ahead_paused_opens == 0; ++parts) {
    push_all(mounted);
    read_every_other(mounted, at, kPart);
    at = (at + kPart) % kSampleCount;
    mounted.settle();
  }
  CHECK(mounted.mount().stats().read_ahead_pauses > 0);
  const std::uint64_t pushed = mounted.mount().stats().pushed_samples;
  read_every_other(mounted, at, kPart);
  mounted.settle();
  REQUIRE(mounted.mount().stats().read_ahead_paused_opens > 0);
  CHECK(mounted.mount().stats().pushed_samples == pushed);
  mounted.mount().set_order(order_of("torch-distributed:seed=1"), 0);
  push_all(mounted);
  CHECK(mounted.mount().stats().read_ahead_paused_opens == 0);
  CHECK(mounted.mount().stats().pushed_samples > pushed);
}

}  // namespace
}  // namespace headrace::fuse::waste_watch_test
