// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/read_ahead.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/ahead/worker_sequence.h"

namespace read_ahead_test {

using namespace headrace::cache;

namespace {

using Samples = std::vector<SampleIndex>;

// Shuffles anew for each epoch; `make` may change what is drawn.
class TestOrder final : public Order {
 public:
  explicit TestOrder(std::uint32_t samples, WorkerLayout layout = {}) : samples_(samples), layout_(layout) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t number) const override { return epoch(number)->size(); }
  [[nodiscard]] WorkerLayout workers() const override { return layout_; }
  [[nodiscard]] Result<Samples> epoch(std::uint64_t number) const override {
    std::mt19937_64 random(number * 1000 + seed);
    Samples drawn(samples_);
    std::iota(drawn.begin(), drawn.end(), SampleIndex{0});
    std::shuffle(drawn.begin(), drawn.end(), random);
    if (replacement) {
      for (SampleIndex& sample : drawn) sample = static_cast<SampleIndex>(random() % samples_);
    }
    for (std::uint32_t i = 0; i < padding; ++i) drawn.push_back(drawn[i]);
    drawn.resize(drawn.size() - std::min<std::size_t>(left_out, drawn.size()));
    return drawn;
  }

  std::uint64_t seed = 1;
  bool replacement = false;
  std::uint32_t padding = 0;   // the first ones again at the end
  std::uint32_t left_out = 0;  // at the end

 private:
  const std::string spec_ = "test";
  std::uint32_t samples_;
  WorkerLayout layout_;
};

// The sequence in which W worker processes with P batches in flight open an epoch, as orders.md measured it.
Samples opened_by_workers(const Samples& order, const WorkerLayout& layout, std::mt19937_64& random) {
  if (layout.workers == 0) return order;
  const std::size_t batches = (order.size() + layout.batch - 1) / layout.batch;
  std::vector<std::size_t> opened(batches, 0);  // of each batch
  const auto batch_size = [&](std::size_t b) {
    return std::min<std::size_t>(layout.batch, order.size() - b * layout.batch);
  };
  Samples sequence;
  std::size_t returned = 0;
  while (sequence.size() < order.size()) {
    const std::size_t worker = random() % layout.workers;
    std::size_t b = worker;
    while (b < batches && opened[b] == batch_size(b)) b += layout.workers;
    if (b >= std::min<std::size_t>(batches, returned + layout.workers * layout.prefetch_factor)) continue;
    sequence.push_back(order[b * layout.batch + opened[b]++]);
    while (returned < batches && opened[returned] == batch_size(returned)) ++returned;
  }
  return sequence;
}

// Does what the plan says and checks the promises of the header at each step, from its own books.
class Cache {
 public:
  Cache(const Order& order, std::vector<std::uint32_t> sizes, ReadAheadOptions options)
      : sizes_(std::move(sizes)), budget_(options.budget_bytes), plan_(order, sizes_, options) {}

  // Starts fetches; at most `in_flight_max` are under way.
  void fetch(std::size_t in_flight_max = SIZE_MAX) {
    while (in_flight_.size() < in_flight_max) {
      drop();
      const std::optional<SampleIndex> sample = plan_.next_fetch();
      if (!sample) break;
      REQUIRE(held_.count(*sample) == 0);
      REQUIRE(std::find(in_flight_.begin(), in_flight_.end(), *sample) == in_flight_.end());
      in_flight_.push_back(*sample);
      used_ += sizes_[*sample];
      ++fetches;
      REQUIRE(used_ <= budget_);
    }
  }

  void land(std::size_t index, bool success = true) {
    const SampleIndex sample = in_flight_[index];
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(index));
    if (success) {
      held_.insert(sample);
    } else {
      used_ -= sizes_[sample];
    }
    plan_.on_fetched(sample, success);
    drop();
  }

  void land_all() {
    while (!in_flight_.empty()) land(0);
  }

  // Whether the sample was there or on its way.
  bool read(SampleIndex sample) {
    const bool found =
        held_.count(sample) != 0 || std::find(in_flight_.begin(), in_flight_.end(), sample) != in_flight_.end();
    plan_.on_read(sample);
    drop();
    return found;
  }

  void lose(SampleIndex sample) {
    if (held_.erase(sample) == 0) return;
    used_ -= sizes_[sample];
    plan_.on_lost(sample);
  }

  void set_budget(std::uint64_t budget, std::uint64_t window) {
    budget_ = std::max(budget, used_);  // what is in flight may stay until it lands
    plan_.set_budget(budget, window);
    drop();
    land_all();
    budget_ = budget;
    REQUIRE(used_ <= budget_);
  }

  void drop() {
    for (const SampleIndex sample : plan_.take_releases()) {
      REQUIRE(held_.erase(sample) == 1);
      used_ -= sizes_[sample];
    }
    check_books();
  }

  // The plan's books agree with these; it may have claimed what it has not handed out yet.
  void check_books() const {
    const ReadAhead::State state = plan_.state();
    REQUIRE(state.held_bytes >= used_);
    REQUIRE(state.resident_bytes <= state.held_bytes);
  }

  // How many are fetched beyond the resident ones before anything is read.
  [[nodiscard]] std::uint64_t window_samples() {
    fetch();
    return in_flight_.size() - plan_.state().resident_bytes / sizes_[0];
  }

  [[nodiscard]] ReadAhead& plan() { return plan_; }
  [[nodiscard]] ReadAhead::State state() const { return plan_.state(); }
  [[nodiscard]] const std::set<SampleIndex>& held() const { return held_; }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }

  std::uint64_t fetches = 0;

 private:
  const SampleSizes sizes_;
  std::uint64_t budget_;
  ReadAhead plan_;
  std::set<SampleIndex> held_;
  std::deque<SampleIndex> in_flight_;
  std::uint64_t used_ = 0;
};

std::vector<std::uint32_t> equal_sizes(std::size_t count) {
  return std::vector<std::uint32_t>(count, 100);
}

unsigned rounds() {
  const char* set = std::getenv("HEADRACE_TEST_ROUNDS");
  return set != nullptr ? static_cast<unsigned>(std::strtoul(set, nullptr, 10)) : 100;
}

// Reads one epoch; how many reads found nothing.
std::uint64_t read_epoch(Cache& cache, const Samples& opened) {
  std::uint64_t misses = 0;
  for (const SampleIndex sample : opened) {
    cache.fetch();
    if (!cache.read(sample)) ++misses;
    cache.land_all();
  }
  return misses;
}

}  // namespace

TEST_CASE("the worker sequence visits every position once and its inverse finds it again") {
  for (const WorkerLayout layout : {WorkerLayout{1, 0, 2}, WorkerLayout{4, 1, 2}, WorkerLayout{4, 3, 2},
                                    WorkerLayout{7, 2, 2}, WorkerLayout{1, 5, 2}, WorkerLayout{100, 2, 2}}) {
    for (std::uint64_t length = 0; length < 60; ++length) {
      const WorkerSequence sequence(length, layout);
      std::set<std::uint64_t> seen;
      for (std::uint64_t step = 0; step < length; ++step) {
        seen.insert(sequence.position_of(step));
        CHECK(sequence.step_of(sequence.position_of(step)) == step);
      }
      CHECK(seen.size() == length);
      if (length > 0) CHECK(*seen.rbegin() == length - 1);
    }
  }
}

TEST_CASE("workers open the first samples of their batches before any second one") {
  const WorkerSequence sequence(11, {.batch = 3, .workers = 2, .prefetch_factor = 2});
  Samples positions;
  for (std::uint64_t step = 0; step < 11; ++step)
    positions.push_back(static_cast<SampleIndex>(sequence.position_of(step)));
  CHECK(positions == Samples{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8});
}

TEST_CASE("a lane holds what one worker of one rank opens, in that order") {
  for (const WorkerLayout layout : {WorkerLayout{1, 0, 2, 1}, WorkerLayout{12, 3, 2, 4}, WorkerLayout{6, 1, 2, 3},
                                    WorkerLayout{7, 2, 2, 1}, WorkerLayout{100, 2, 2, 2}}) {
    for (const std::uint64_t length : {0U, 1U, 5U, 24U, 47U, 60U}) {
      const WorkerSequence sequence(length, layout);
      std::vector<Samples> opened(sequence.lanes());  // positions
      for (std::uint64_t position = 0; position < length; ++position) {
        const std::uint64_t worker = layout.workers < 2 ? 0 : position / layout.batch % layout.workers;
        opened[worker * layout.ranks + position % layout.ranks].push_back(static_cast<SampleIndex>(position));
      }
      for (std::uint64_t lane = 0; lane < sequence.lanes(); ++lane) {
        Samples walked;
        for (auto step = sequence.first_in_lane(0, lane); step; step = sequence.next_in_lane(*step)) {
          CHECK(sequence.lane_of(*step) == lane);
          walked.push_back(static_cast<SampleIndex>(sequence.position_of(*step)));
        }
        CHECK(walked == opened[lane]);
      }
    }
  }
}

TEST_CASE("a reader that takes positions one by one is served in that order") {
  const TestOrder order(100, {.batch = 10, .workers = 5, .prefetch_factor = 2});
  Cache cache(order, equal_sizes(100), {.budget_bytes = 500, .window_bytes = 500, .in_order = true});
  cache.fetch();
  cache.land_all();
  const Samples first = *order.prefix(0, 5);
  CHECK(cache.held() == std::set<SampleIndex>(first.begin(), first.end()));
  CHECK(read_epoch(cache, *order.epoch(0)) == 0);
}

TEST_CASE("before the first read the budget is filled along the order") {
  const TestOrder order(100);
  Cache cache(order, equal_sizes(100), {.budget_bytes = 4000, .window_bytes = 1000});
  cache.fetch();
  CHECK(cache.fetches == 40);
  cache.land_all();
  const Samples first = *order.prefix(0, 40);
  CHECK(cache.held() == std::set<SampleIndex>(first.begin(), first.end()));
  CHECK(cache.state().resident_bytes == 3000);
  CHECK(cache.state().ahead == 40);
}

TEST_CASE("a steady epoch fetches what is not resident, once, and every read finds its sample") {
  const TestOrder order(1000);
  Cache cache(order, equal_sizes(1000), {.budget_bytes = 50'000, .window_bytes = 5'000});
  CHECK(read_epoch(cache, *order.epoch(0)) == 0);
  const std::uint64_t before = cache.fetches;
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) {
    CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
    CHECK(cache.state().resident_bytes == 45'000);
  }
  // Fewer than N - resident by what the window carries over the boundary from one epoch to the next.
  CHECK(cache.fetches - before <= 4 * (1000 - 450));
  CHECK(cache.fetches - before >= 4 * (1000 - 450 - 10));
  CHECK(cache.state().strays == 0);
  CHECK(cache.state().reads == 5000);
}

TEST_CASE("without a size given, the window leaves nearly all of the budget to what is resident") {
  const TestOrder order(10'000);
  Cache cache(order, equal_sizes(10'000), {.budget_bytes = 500'000});
  read_epoch(cache, *order.epoch(0));
  const std::uint64_t before = cache.fetches;
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
  CHECK(cache.fetches - before <= 3 * (10'000 - 5000 + 5000 / 32 + 1));

  const TestOrder workers(10'000, {.batch = 8, .workers = 10, .prefetch_factor = 2});
  CHECK(Cache(workers, equal_sizes(10'000), {.budget_bytes = 200'000}).window_samples() == 80);
  const TestOrder batches(10'000, {.batch = 64, .workers = 10, .prefetch_factor = 2});
  CHECK(Cache(batches, equal_sizes(10'000), {.budget_bytes = 200'000}).window_samples() == 320);
  CHECK(Cache(order, equal_sizes(10'000), {.budget_bytes = 100'000}).window_samples() == 64);
  CHECK(Cache(order, equal_sizes(10'000), {.budget_bytes = 4'000}).window_samples() == 10);
}

TEST_CASE("where all samples are needed equally often, small ones stay in the place of large ones") {
  const TestOrder order(1000);
  std::vector<std::uint32_t> sizes(1000);
  for (SampleIndex sample = 0; sample < sizes.size(); ++sample) sizes[sample] = sample % 2 == 0 ? 50 : 150;
  Cache cache(order, sizes, {.budget_bytes = 50'000, .window_bytes = 5'000});
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
  const std::uint64_t before = cache.fetches;
  for (std::uint64_t epoch = 4; epoch < 7; ++epoch) CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
  // All small ones, and large ones in the rest of the resident part.
  CHECK(cache.fetches - before <= 3 * (1000 - 500 - (45'000 - 25'000) / 150 + 5));
}

TEST_CASE("a budget for everything fetches each sample once and never again") {
  const TestOrder order(500);
  Cache cache(order, equal_sizes(500), {.budget_bytes = 50'000});
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
  CHECK(cache.fetches == 500);
}

TEST_CASE("fetching goes on across the epoch boundary and ends with the last epoch") {
  const TestOrder order(100);
  Cache cache(order, equal_sizes(100), {.budget_bytes = 2000, .window_bytes = 2000, .epoch_count = 2});
  const Samples first = *order.epoch(0);
  for (std::size_t i = 0; i < 95; ++i) {
    cache.fetch();
    cache.land_all();
    cache.read(first[i]);
  }
  cache.fetch();
  cache.land_all();
  const Samples next = *order.prefix(1, 10);
  for (const SampleIndex sample : next) CHECK(cache.held().count(sample) == 1);
  read_epoch(cache, Samples(first.begin() + 95, first.end()));
  CHECK(read_epoch(cache, *order.epoch(1)) == 0);
  cache.fetch();
  CHECK(cache.in_flight() == 0);
  CHECK(cache.held().empty());
}

TEST_CASE("workers that drift apart find every sample fetched when the window covers their drift") {
  std::mt19937_64 random(3);
  for (const WorkerLayout layout : {WorkerLayout{8, 2, 2}, WorkerLayout{16, 4, 2}, WorkerLayout{5, 3, 4}}) {
    const TestOrder order(2000, layout);
    const std::uint64_t window = 100ULL * 4 * layout.batch * layout.workers * layout.prefetch_factor;
    Cache cache(order, equal_sizes(2000), {.budget_bytes = window + 20'000, .window_bytes = window});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      CHECK(read_epoch(cache, opened_by_workers(*order.epoch(epoch), layout, random)) == 0);
    }
    CHECK(cache.state().strays == 0);
  }
}

TEST_CASE("workers that are through with an epoch leave the window to those of their rank that are not") {
  const TestOrder order(64, {.batch = 16, .workers = 4, .prefetch_factor = 2});
  Cache cache(order, equal_sizes(64), {.budget_bytes = 1600, .window_bytes = 1600});
  const Samples epoch = *order.epoch(0);
  const auto last_batch = epoch.begin() + 48;
  CHECK(read_epoch(cache, Samples(epoch.begin(), last_batch)) == 0);
  cache.fetch();
  for (const SampleIndex sample : Samples(last_batch, epoch.end())) CHECK(cache.read(sample));
}

TEST_CASE("an order with padding, repeats, gaps or few samples is read without a miss") {
  for (const std::uint32_t samples : {1U, 2U, 3U, 40U, 700U}) {
    for (const int kind : {0, 1, 2}) {
      CAPTURE(samples);
      CAPTURE(kind);
      TestOrder order(samples);
      order.padding = kind == 0 ? std::min(samples, 7U) : 0;
      order.replacement = kind == 1;
      order.left_out = kind == 2 ? samples / 3 : 0;
      Cache cache(order, equal_sizes(samples), {.budget_bytes = 1500, .window_bytes = 500});
      for (std::uint64_t epoch = 0; epoch < 6; ++epoch) CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
    }
  }
}

TEST_CASE("a reader that resumes in mid-epoch is found again after a few reads") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 20'000, .window_bytes = 10'000});
  read_epoch(cache, *order.prefix(0, 100));
  const Samples epoch = *order.epoch(0);
  const Samples rest(epoch.begin() + 3000, epoch.end());
  CHECK(read_epoch(cache, rest) < 8);
  CHECK(cache.state().epoch == 1);
  CHECK(cache.state().position == 0);
  CHECK(read_epoch(cache, *order.epoch(1)) == 0);
}

TEST_CASE("a job that starts again at its first epoch is found after a few reads") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 20'000, .window_bytes = 10'000});
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) read_epoch(cache, *order.epoch(epoch));
  CHECK(read_epoch(cache, *order.epoch(0)) < 32);
  CHECK(cache.state().epoch == 1);
}

TEST_CASE("a job that repeats its epoch is followed into each repetition") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 20'000, .window_bytes = 10'000, .first_epoch = 40});
  read_epoch(cache, *order.epoch(40));
  for (int repetition = 0; repetition < 3; ++repetition) CHECK(read_epoch(cache, *order.epoch(40)) < 32);
}

TEST_CASE("an epoch that is broken off is left for the next one") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 20'000, .window_bytes = 10'000});
  read_epoch(cache, *order.prefix(0, 4900));
  CHECK(read_epoch(cache, *order.epoch(1)) < 24);
  CHECK(cache.state().epoch == 2);
  CHECK(read_epoch(cache, *order.prefix(2, 500)) == 0);
  CHECK(read_epoch(cache, *order.epoch(3)) < 24);
}

TEST_CASE("where epochs leave samples out, what the next one needs takes the place of what it does not") {
  TestOrder order(4000);
  order.left_out = 3000;
  Cache cache(order, equal_sizes(4000), {.budget_bytes = 400 * 100, .window_bytes = 20 * 100});
  std::uint64_t before = 0;
  for (std::uint64_t epoch = 0; epoch < 30; ++epoch) {
    if (epoch == 10) before = cache.fetches;
    CHECK(read_epoch(cache, *order.epoch(epoch)) == 0);
  }
  const double hit_ratio = 1 - static_cast<double>(cache.fetches - before) / (20.0 * 1000);
  CHECK(hit_ratio > 0.25);  // never-evict: 0.10
  CHECK(hit_ratio < 0.32);  // MIN: 0.31
}

TEST_CASE("reads that are never reported do not stop the window") {
  const TestOrder order(5000, {.batch = 16, .workers = 2, .prefetch_factor = 2});
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 20'000, .window_bytes = 15'000});
  std::mt19937_64 random(5);
  std::uint64_t misses = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (const SampleIndex sample : opened_by_workers(*order.epoch(epoch), order.workers(), random)) {
      cache.fetch();
      cache.land_all();
      if (random() % 10 == 0) continue;  // the event was lost
      if (!cache.read(sample)) ++misses;
    }
  }
  CHECK(misses < 20);
}

TEST_CASE("strays of another job do not move the reader") {
  const TestOrder order(5000);
  TestOrder other(5000);
  other.seed = 99;
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 200'000, .window_bytes = 100'000});
  const Samples mine = *order.epoch(0);
  const Samples theirs = *other.epoch(0);
  std::uint64_t misses = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    cache.fetch();
    cache.land_all();
    if (!cache.read(mine[i])) ++misses;
    if (i % 3 == 0) cache.read(theirs[i]);
  }
  CHECK(misses < 1200);  // what the other job read within the zone counts as read
  CHECK(cache.state().epoch == 1);
}

TEST_CASE("files that are opened again just after are no strays") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 200'000, .window_bytes = 100'000});
  const Samples epoch = *order.epoch(0);
  std::uint64_t misses = 0;
  for (std::size_t i = 0; i < epoch.size(); ++i) {
    cache.fetch();
    cache.land_all();
    if (!cache.read(epoch[i])) ++misses;
    cache.read(epoch[i]);                                 // by its own loader, which looks at a file first
    cache.read(epoch[i - std::min<std::size_t>(i, 20)]);  // by another job that has the same order
  }
  CHECK(misses == 0);
  CHECK(cache.state().strays == 0);
}

TEST_CASE("two jobs at different places of one order do not make the plan go to and fro") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 200'000, .window_bytes = 100'000});
  const Samples epoch = *order.epoch(0);
  unsigned jumps = 0;
  std::uint64_t before = 0;
  constexpr std::size_t kBatch = 32;
  for (std::size_t i = 0; i < 4000; ++i) {
    const bool is_first = i / kBatch % 2 == 0;
    cache.read(epoch[i / kBatch / 2 * kBatch + i % kBatch + (is_first ? 0 : 2500)]);
    const std::uint64_t now = cache.state().position;
    jumps += std::max(now, before) - std::min(now, before) > 1000 ? 1 : 0;
    before = now;
  }
  CHECK(jumps < 20);  // one for each of 125 batches, were each find as easy as the first
}

TEST_CASE("one file that is opened again and again shows no place") {
  const TestOrder order(5000);
  Cache cache(order, equal_sizes(5000), {.budget_bytes = 200'000, .window_bytes = 100'000});
  const Samples epoch = *order.epoch(0);
  for (std::size_t i = 0; i < 100; ++i) cache.read(epoch[i]);
  for (int i = 0; i < 50; ++i) cache.read(epoch[4000]);
  CHECK(cache.state().epoch == 0);
  CHECK(cache.state().position == 100);
}

TEST_CASE("a seek keeps what the new place needs and drops the rest") {
  const TestOrder order(1000, {.batch = 10, .workers = 2, .prefetch_factor = 2});
  Cache cache(order, equal_sizes(1000), {.budget_bytes = 10'000, .window_bytes = 5'000});
  cache.fetch();
  cache.land_all();
  CHECK(cache.fetches == 100);
  cache.plan().seek(0, 45);
  cache.drop();
  CHECK(cache.state().position == 45);
  cache.fetch();
  CHECK(cache.fetches <= 102);  // the 50 resident ones stay; the window held what follows, as far as worker 1 reads
  cache.plan().seek(0, 73);
  cache.drop();
  cache.fetch();
  CHECK(cache.fetches <= 102 + 23);  // it held 50 to 99 and dropped what comes before 73
  cache.land_all();
  const Samples epoch = *order.epoch(0);
  CHECK(read_epoch(cache, Samples(epoch.begin() + 73, epoch.end())) == 0);
  CHECK(read_epoch(cache, *order.epoch(1)) == 0);
  CHECK(cache.state().strays == 0);
}

TEST_CASE("a fetch that fails is not tried again before the reader passes it") {
  const TestOrder order(100);
  Cache cache(order, equal_sizes(100), {.budget_bytes = 1000, .window_bytes = 1000});
  const SampleIndex bad = order.prefix(0, 1)->front();
  cache.fetch();
  cache.land(0, false);
  cache.land_all();
  cache.fetch();
  CHECK(cache.fetches == 11);  // its place is free again
  CHECK_FALSE(cache.plan().holds(bad));
  CHECK_FALSE(cache.read(bad));
  const Samples epoch = *order.epoch(0);
  read_epoch(cache, Samples(epoch.begin() + 1, epoch.end()));
  CHECK(read_epoch(cache, *order.epoch(1)) == 0);
}

TEST_CASE("what was lost is fetched again if the reader still needs it") {
  const TestOrder order(100);
  Cache cache(order, equal_sizes(100), {.budget_bytes = 4000, .window_bytes = 1000});
  cache.fetch();
  cache.land_all();
  const Samples first = *order.prefix(0, 40);
  cache.lose(first[20]);
  cache.lose(first[39]);
  cache.fetch();
  CHECK(cache.fetches == 42);
  cache.land_all();
  CHECK(cache.plan().holds(first[20]));
  CHECK(read_epoch(cache, *order.epoch(0)) == 0);
}

TEST_CASE("a sample larger than the window does not hold up the others") {
  const TestOrder order(100);
  std::vector<std::uint32_t> sizes = equal_sizes(100);
  sizes[order.prefix(0, 5)->back()] = 5000;
  Cache cache(order, sizes, {.budget_bytes = 1000, .window_bytes = 1000});
  CHECK(read_epoch(cache, *order.epoch(0)) == 1);
}

TEST_CASE("counters tell hits, late reads and strays apart") {
  const TestOrder order(1000);
  Cache cache(order, equal_sizes(1000), {.budget_bytes = 300, .window_bytes = 300});
  const Samples epoch = *order.epoch(0);
  cache.fetch();
  cache.land(0);
  CHECK(cache.read(epoch[0]));
  CHECK(cache.read(epoch[1]));
  CHECK_FALSE(cache.read(epoch[3]));
  CHECK_FALSE(cache.read(epoch[900]));
  const ReadAhead::State state = cache.state();
  CHECK(state.reads == 4);
  CHECK(state.hits == 1);
  CHECK(state.late == 1);
  CHECK(state.strays == 1);
  CHECK(state.position == 2);
}

TEST_CASE("an order that ends is no reason to stop before") {
  const TestOrder order(10);
  Cache none(order, equal_sizes(10), {.budget_bytes = 1000, .epoch_count = 0});
  none.fetch();
  CHECK(none.fetches == 0);
  TestOrder empty(10);
  empty.left_out = 10;
  Cache nothing(empty, equal_sizes(10), {.budget_bytes = 1000});
  nothing.fetch();
  CHECK(nothing.fetches == 0);
  nothing.read(3);
  CHECK(nothing.state().strays == 1);
}

// The books of Cache are the reference: whatever happens, the budget holds and nothing is fetched twice.
TEST_CASE("random histories keep the promises of the budget") {
  for (unsigned round = 0; round < rounds(); ++round) {
    CAPTURE(round);
    std::mt19937_64 random(round);
    const auto pick = [&](std::uint64_t below) { return static_cast<std::uint32_t>(random() % below); };
    TestOrder order(1 + pick(300), {.batch = 1 + pick(9), .workers = pick(5), .prefetch_factor = 1 + pick(3)});
    const auto samples = static_cast<std::uint32_t>(order.epoch(0)->size());
    order.seed = round;
    order.padding = pick(2) * pick(samples);
    order.replacement = pick(4) == 0;
    order.left_out = pick(2) * pick(samples / 2 + 1);
    std::vector<std::uint32_t> sizes(samples);
    for (std::uint32_t& size : sizes) size = pick(200);
    const std::uint64_t budget = 200 + pick(100 * samples + 1);
    Cache cache(order, sizes, {.budget_bytes = budget, .window_bytes = pick(3) * (budget / 5)});
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      for (const SampleIndex sample : opened_by_workers(*order.epoch(epoch), order.workers(), random)) {
        cache.fetch(1 + pick(20));
        while (cache.in_flight() > 0 && pick(3) > 0) cache.land(pick(cache.in_flight()), pick(20) > 0);
        if (pick(50) > 0) cache.read(sample);
        if (pick(50) == 0) cache.read(pick(samples));
        if (pick(50) == 0) cache.lose(pick(samples));
        if (pick(400) == 0) cache.plan().seek(epoch + pick(2), pick(samples + 5));
        if (pick(400) == 0) cache.set_budget(100 + pick(100 * samples), pick(2) * 200);
      }
    }
    cache.land_all();
  }
}

}  // namespace read_ahead_test
