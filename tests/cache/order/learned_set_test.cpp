// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/learned_set.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

#include <doctest/doctest.h>

#include "headrace/cache/order_learner.h"

namespace learned_set_test {

using namespace headrace::cache;

namespace {

using Samples = std::vector<SampleIndex>;

constexpr std::uint64_t kCount = 1000;

Samples shuffled(std::uint64_t count, std::mt19937& random) {
  Samples samples(count);
  std::iota(samples.begin(), samples.end(), SampleIndex{0});
  std::ranges::shuffle(samples, random);
  return samples;
}

Samples first_of(Samples samples, std::size_t count) {
  samples.resize(count);
  return samples;
}

void open_all(LearnedSet& set, const Samples& samples) {
  for (const SampleIndex sample : samples) set.on_open(sample);
}

// Of two jobs in turn, one sample each.
Samples in_turn(const Samples& job, const Samples& other) {
  Samples opens;
  for (std::size_t i = 0; i < job.size(); ++i) opens.insert(opens.end(), {job[i], other[i]});
  return opens;
}

// Opens are told 64 at a time, as a busy mount does. Returns what the learner ever let go.
Samples let_go_by(OrderLearner& learner, const Samples& opens) {
  Samples all;
  for (std::size_t at = 0; at < opens.size(); at += 64) {
    learner.on_opens(std::span(opens).subspan(at, std::min<std::size_t>(64, opens.size() - at)));
    const Samples left_out = learner.take_left_out();
    all.insert(all.end(), left_out.begin(), left_out.end());
  }
  return all;
}

OrderLearnerOptions quick() {
  return {.sample_count = kCount, .search_all_seeds = false, .search_seeds = 1, .link_outputs = 1};
}

}  // namespace

TEST_CASE("a learned set that lacks three samples is believed once two epochs have read it") {
  std::mt19937 random(3);
  const Samples read = first_of(shuffled(kCount, random), kCount - 3);
  LearnedSet set(kCount);
  set.learn(read);
  open_all(set, read);
  CHECK_FALSE(set.is_believed());
  Samples again = read;
  std::ranges::shuffle(again, random);
  set.learn(again);
  CHECK(set.is_believed());
  CHECK(set.take_left_out().size() == 3);
  Samples other = first_of(shuffled(kCount, random), kCount - 3);
  LearnedSet changing(kCount);
  changing.learn(read);
  changing.learn(other);
  CHECK_FALSE(changing.is_believed());
}

TEST_CASE("a learned set is believed once the opens after its epoch keep to it, and what it lacks is let go once") {
  for (const std::size_t size : {50U, 300U, 600U, 800U}) {
    CAPTURE(size);
    std::mt19937 random(1);
    const Samples read = first_of(shuffled(kCount, random), size);
    LearnedSet set(kCount);
    open_all(set, read);
    CHECK_FALSE(set.is_believed());
    set.learn(read);
    open_all(set, first_of(read, 16));
    CHECK_FALSE(set.is_believed());
    CHECK(set.take_left_out().empty());
    open_all(set, first_of(read, std::min<std::size_t>(size, 200)));
    CHECK(set.is_believed());
    const Samples left_out = set.take_left_out();
    CHECK(left_out.size() == kCount - size);
    CHECK(std::ranges::none_of(left_out, [&](SampleIndex sample) { return set.contains(sample); }));
    CHECK(set.take_left_out().empty());
  }
}

TEST_CASE("a learned set outlives the turn of its epochs, and a few strays, but not a job that reads everything") {
  std::mt19937 random(2);
  const Samples read = first_of(shuffled(kCount, random), 500);
  LearnedSet set(kCount);
  set.learn(read);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (std::size_t i = 0; i < read.size(); ++i) {
      set.on_open(read[i]);
      if (i % 20 == 19) set.on_open(static_cast<SampleIndex>(random() % kCount));
    }
    CHECK(set.is_believed());
    set.learn(read);
    CHECK(set.is_believed());
    CHECK(set.take_left_out().size() == kCount - read.size());  // two epochs that read the same have confirmed it
  }
  open_all(set, first_of(shuffled(kCount, random), 100));
  CHECK_FALSE(set.is_believed());
}

TEST_CASE("a learned set is not believed where each epoch draws anew, or two jobs read one behind the other") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::size_t size = 50 + random() % 900;
    CAPTURE(size);
    const Samples read = first_of(shuffled(kCount, random), size);
    LearnedSet set(kCount);
    set.learn(read);
    for (const SampleIndex sample : shuffled(kCount, random)) {
      set.on_open(sample);
      REQUIRE_FALSE(set.is_believed());
    }
  }
  const Samples order = shuffled(20 * kCount, random);
  LearnedSet set(20 * kCount);
  set.learn(first_of(order, kCount));
  for (std::size_t i = 0; i < kCount; ++i) {
    set.on_open(order[kCount + i]);
    set.on_open(order[i]);  // the second job is there now
    REQUIRE_FALSE(set.is_believed());
  }
}

TEST_CASE("order learner: where each epoch draws other samples, or two jobs read at once, none is let go") {
  std::mt19937 random(4);
  OrderLearner of_draws(quick());
  OrderLearner of_jobs(quick());
  for (int epoch = 0; epoch < 12; ++epoch) {
    CHECK(let_go_by(of_draws, first_of(shuffled(kCount, random), kCount / 3)).empty());
    CHECK(let_go_by(of_jobs, in_turn(shuffled(kCount, random), shuffled(kCount, random))).empty());
  }
  for (OrderLearner* learner : {&of_draws, &of_jobs}) {
    CHECK(learner->state().epochs_seen > 1);  // there were sets that it might have believed
    REQUIRE_FALSE(learner->lock());
    Samples handed;
    while (const auto sample = learner->next_unseen()) handed.push_back(*sample);
    CHECK(handed.size() > kCount / 2);  // whatever was not read lately
    std::ranges::sort(handed);
    CHECK(std::ranges::adjacent_find(handed) == handed.end());
  }
}

TEST_CASE("order learner: what three epochs read alike is known, and read again in full it is no more") {
  std::mt19937 random(5);
  const Samples chosen = first_of(shuffled(kCount, random), kCount / 2);
  const auto epoch_of_chosen = [&] {
    Samples opens = chosen;
    std::ranges::shuffle(opens, random);
    return opens;
  };
  OrderLearner learner(quick());
  CHECK(let_go_by(learner, epoch_of_chosen()).empty());
  CHECK(let_go_by(learner, epoch_of_chosen()).size() == kCount / 2);
  CHECK(let_go_by(learner, first_of(epoch_of_chosen(), 64)).size() <= kCount / 2);
  Samples handed;
  while (const auto sample = learner.next_unseen()) handed.push_back(*sample);
  for (const SampleIndex sample : handed) CHECK(std::ranges::find(chosen, sample) != chosen.end());
  let_go_by(learner, shuffled(kCount, random));
  handed.clear();
  let_go_by(learner, first_of(shuffled(kCount, random), 256));
  while (const auto sample = learner.next_unseen()) handed.push_back(*sample);
  CHECK(handed.size() > kCount / 2);
}

}  // namespace learned_set_test
