// SPDX-License-Identifier: Apache-2.0
// Lists that a job reads, and the orders that are found over them.
#include "headrace/cache/list_file.h"

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/cache/order_learner.h"

#include "cache/order/golden.h"
#include "cache/order/loader_replay.h"
#include "support/temp_dir.h"

namespace list_file_test {

using namespace headrace::cache;
using namespace headrace::test;

namespace {

using Samples = std::vector<SampleIndex>;

constexpr SampleIndex kClasses = 4;
constexpr SampleIndex kOfClass = 10;
constexpr SampleIndex kAll = kClasses * kOfClass;

// train/c0/0000.jpg ... : sample i is file i, and so is its name.
class Photos {
 public:
  Photos() {
    for (SampleIndex i = 0; i < kAll; ++i) directory_.write(path_of(i), "x");
    directory_.write("train/labels.csv", "x");
    catalog_.emplace(Catalog::scan(directory_.path(), {.listing = ListingRule::kTimm}).value());
    REQUIRE(catalog_->sample_count() == kAll);
  }
  [[nodiscard]] static std::string path_of(SampleIndex i) {
    return fmt::format("train/c{}/{:04}.jpg", i / kOfClass, i);
  }
  [[nodiscard]] Samples named_in(const std::string& text, SampleRange range = {.first = 0, .count = kAll}) const {
    return samples_named_in(text, *catalog_, *catalog_->find("train"), range);
  }

 private:
  TempDir directory_;
  std::optional<Catalog> catalog_;
};

Samples some_order(SampleIndex n) {
  Samples samples(n);
  for (SampleIndex i = 0; i < n; ++i) samples[i] = i * 7 % n;  // 7 and n have no common factor
  return samples;
}

// A line for each sample, by a format of its path, its name without ending, and its class.
template <typename Line>
std::string lines_of(const Samples& samples, const Line& line, std::string text = "") {
  for (const SampleIndex i : samples) text += line(i) + "\n";
  return text;
}

}  // namespace

TEST_CASE("list file: samples are named by paths, file names and names without endings, in any column") {
  const Photos photos;
  const Samples order = some_order(kAll);
  const auto path = [](SampleIndex i) { return Photos::path_of(i); };
  const auto below = [](SampleIndex i) { return Photos::path_of(i).substr(6); };
  const auto stem = [](SampleIndex i) { return fmt::format("{:04}", i); };
  CHECK(photos.named_in(lines_of(order, path)) == order);
  CHECK(photos.named_in(lines_of(order, below)) == order);  // from the list's own folder
  CHECK(photos.named_in(lines_of(order, stem)) == order);
  CHECK(photos.named_in(lines_of(order, [&](SampleIndex i) { return "/mnt/data/" + path(i); })) == order);
  CHECK(photos.named_in(lines_of(order, [&](SampleIndex i) { return "./" + path(i) + " 3\r"; })) == order);
  CHECK(photos.named_in(lines_of(order, [&](SampleIndex i) { return stem(i) + ".jpg\t1"; })) == order);
  CHECK(photos.named_in(lines_of(
            order, [&](SampleIndex i) { return fmt::format("{},\"{}\",cat", i % 3, path(i)); },
            "label,image,name\n")) == order);
  CHECK(photos.named_in(lines_of(order, [&](SampleIndex i) {
    return fmt::format("{{\"file\": \"{}\", \"label\": {}}}", below(i), i % 3);
  })) == order);
  // Boxes: several lines for each image, which is read once.
  CHECK(photos.named_in(lines_of(order, [&](SampleIndex i) { return stem(i) + ",1,2\n\n" + stem(i) + ",3,4"; })) ==
        order);
}

TEST_CASE("list file: what is no list of samples names none") {
  const Photos photos;
  const auto stem = [](SampleIndex i) { return fmt::format("{:04}", i); };
  const Samples order = some_order(kAll);
  CHECK(photos.named_in("").empty());
  CHECK(photos.named_in("\n\n,,,\n").empty());
  CHECK(photos.named_in(std::string(100'000, 'x')).empty());
  CHECK(photos.named_in(std::string(1000, '\0')).empty());
  CHECK(photos.named_in(lines_of(order, [](SampleIndex i) { return fmt::format("epoch {} loss 0.5", i); })).empty());
  CHECK(photos.named_in(lines_of(Samples(order.begin(), order.begin() + 15), stem)).empty());  // too few
  CHECK(photos.named_in(lines_of(Samples(order.begin(), order.begin() + 16), stem)).size() == 16);
  Samples listed(kAll);
  for (SampleIndex i = 0; i < kAll; ++i) listed[i] = i;
  CHECK(photos.named_in(lines_of(listed, stem)).empty());  // the listing, which is known
  // Most lines name none.
  CHECK(photos.named_in(lines_of(order, stem) + lines_of(order, [](SampleIndex) { return std::string("other"); }))
            .empty());
  CHECK(photos.named_in(lines_of(order, stem, "image\nby,somebody\n")) == order);
}

TEST_CASE("list file: of a part only its own samples count") {
  const Photos photos;
  const SampleRange second{.first = 10, .count = 20, .name = "second"};
  const auto stem = [](SampleIndex i) { return fmt::format("{:04}", i); };
  Samples order;
  for (const SampleIndex i : some_order(kAll)) {
    if (i >= 10 && i < 30) order.push_back(i);
  }
  CHECK(photos.named_in(lines_of(order, stem), second) == order);
  CHECK(photos.named_in(lines_of(some_order(kAll), stem), second).empty());  // half of the lines are of others
}

TEST_CASE("order learner: a list that the job has read is what it shuffles") {
  constexpr std::uint64_t kN = 3000;
  std::mt19937 random(41);
  Samples list(kN);
  for (std::uint64_t i = 0; i < kN; ++i) list[i] = static_cast<SampleIndex>(i);
  std::ranges::shuffle(list, random);
  list.resize(2000);  // some samples are in no list
  Samples other = list;
  std::ranges::shuffle(other, random);
  for (const bool is_offered : {true, false}) {
    CAPTURE(is_offered);
    OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
    const auto offer = [&](const Samples& samples) {
      learner.offer_list([samples](const SampleRange& range) { return range.count == kN ? samples : Samples(); });
    };
    if (is_offered) offer(list);
    offer(other);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      CAPTURE(epoch);
      Samples shuffled = epoch_of("torch-distributed:seed=0", list.size(), epoch);
      for (SampleIndex& sample : shuffled) sample = list[sample];
      const Samples opens = replay_epoch({shuffled}, {.batch = 16, .workers = 2}, random);
      for (std::size_t i = 0; i < opens.size(); ++i) {
        learner.on_opens({&opens[i], 1});
        learner.wait_idle();
        if (i != 100) continue;
        const auto lock = learner.lock();
        REQUIRE(lock.has_value() == is_offered);
        if (!lock) continue;
        if (epoch == 0) CHECK(lock->found_by == "list");
        CHECK(lock->epoch == epoch);
        CHECK(lock->order->epoch(epoch).value() == shuffled);
      }
    }
    CHECK(learner.state().locks == (is_offered ? 1 : 0));
  }
}

TEST_CASE("order learner: of many lists the last ones are kept") {
  constexpr std::uint64_t kN = 1000;
  std::mt19937 random(42);
  OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
  std::vector<Samples> lists(6, Samples(kN));
  for (Samples& list : lists) {
    for (std::uint64_t i = 0; i < kN; ++i) list[i] = static_cast<SampleIndex>(i);
    std::ranges::shuffle(list, random);
    learner.offer_list([&list](const SampleRange&) { return list; });
    learner.wait_idle();
  }
  for (const std::size_t which : {std::size_t{0}, std::size_t{2}, std::size_t{5}}) {
    CAPTURE(which);
    Samples shuffled = epoch_of("torch-distributed:seed=0", kN, 0);
    for (SampleIndex& sample : shuffled) sample = lists[which][sample];
    learner.on_events_lost();
    learner.learn_anew();
    for (std::size_t opened = 0; opened < 128; opened += 16) {
      learner.on_opens(std::span(shuffled).subspan(opened, 16));
      learner.wait_idle();
    }
    CHECK(learner.lock().has_value() == (which >= 2));
  }
}

}  // namespace list_file_test
