// SPDX-License-Identifier: Apache-2.0
// Tests, without a mount, which order goes first and what the next process is left.
#include "headrace/cache/order_book.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace headrace::cache::order_book_test {
namespace {

constexpr std::uint64_t kSamples = 400;
constexpr char kRead[] = "torch-distributed:seed=0,batch=1,workers=1";  // what the opens are of, as a learner names it

std::shared_ptr<const Order> order_of(const std::string& spec) {
  return std::move(*make_order(spec, {.sample_count = kSamples}));
}

// Notes what it is told to follow, and says that opens contradict that when a test wants it to.
class Follower final : public OrderFollower {
 public:
  void set_order(const OrderPosition& order) override { told.push_back(order); }
  void let_go(std::span<const SampleIndex> samples) override { static_cast<void>(samples); }
  Finding take_finding() override {
    return {.wants_order = wants, .contradiction = std::exchange(contradiction, std::nullopt)};
  }
  [[nodiscard]] std::string last() const { return told.empty() || !told.back().order ? "" : told.back().order->spec(); }

  std::vector<OrderPosition> told;
  std::optional<Contradiction> contradiction;
  bool wants = true;
};

class Book {
 public:
  explicit Book(OrderCandidates candidates, bool follows = false)
      : follows_before(follows), book_(with_listener(std::move(candidates)), learning(), follows_before) {
    book_.begin(follower);
  }
  OrderBook* operator->() { return &book_; }

  [[nodiscard]] std::string next() const {
    const OrderPosition next = book_.next();
    return next.order ? next.order->spec() : "";
  }
  // The order that is followed is given up: all of it, or one of its sets.
  std::optional<OrderBook::GivenUp> contradict(const std::string& spec, bool is_all = true) {
    follower.contradiction = {.spec = spec, .is_all = is_all};
    return book_.on_opens({});
  }
  // An epoch of kRead is opened, and the learner thinks about all of it.
  void read_epoch(std::uint64_t epoch) {
    const std::vector<SampleIndex> samples = order_of(kRead)->epoch(epoch).value();
    for (const SampleIndex sample : samples) {
      static_cast<void>(book_.on_opens({&sample, 1}));
      book_.wait_idle();
    }
  }

  Follower follower;
  bool follows_before;
  std::optional<std::string> kept;  // for the next process; nullopt: it was not told yet

 private:
  OrderCandidates with_listener(OrderCandidates candidates) {
    candidates.on_found = [this](const Order* order, const std::string& by) {
      kept = order == nullptr ? "" : by + ": " + order->spec();
    };
    return candidates;
  }
  static OrderLearnerOptions learning() {
    return {.sample_count = kSamples, .search_all_seeds = false, .link_outputs = 1000};
  }

  OrderBook book_;
};

TEST_CASE("an order that is contradicted gives way to the next one that was given, and at last to none") {
  Book book({.given = {order_of("sequential"), order_of(kRead)}, .first_epoch = 3});
  CHECK(book.next() == "sequential");
  CHECK(book->next().epoch == 3);
  CHECK(book->next().may_be_wrong);
  CHECK_FALSE(book->on_opens({}));
  const auto first = book.contradict("sequential");
  REQUIRE(first);
  CHECK(first->spec == "sequential");
  CHECK(first->next == kRead);
  CHECK(book.follower.last() == kRead);
  CHECK(book.follower.told.back().epoch == 3);
  const auto second = book.contradict(kRead);
  REQUIRE(second);
  CHECK(second->next == "");
  CHECK(book.next() == "");
  CHECK(book.follower.told.size() == 1);  // whoever followed it has given it up by itself
}

TEST_CASE("an order of several sets stays when one of its sets is given up") {
  Book book({.given = {order_of("sequential"), order_of(kRead)}});
  const auto given_up = book.contradict("val=sequential", false);
  REQUIRE(given_up);
  CHECK(given_up->spec == "val=sequential");
  CHECK(given_up->next == "");
  CHECK(book.next() == "sequential");
  CHECK(book.follower.told.empty());
}

TEST_CASE("an order that is set or told goes before all that were given, and none of these comes back after it") {
  Book book({.given = {order_of("sequential"), order_of(kRead)}});
  book->set({.order = order_of("sequential:batch=2"), .epoch = 5, .may_be_wrong = true});
  CHECK(book.follower.last() == "sequential:batch=2");
  CHECK(book.follower.told.back().epoch == 5);
  const auto given_up = book.contradict("sequential:batch=2");
  REQUIRE(given_up);
  CHECK(given_up->next == "");
  CHECK(book.next() == "");
  book->set({});
  CHECK(book.follower.last() == "");
}

TEST_CASE("a process that takes over goes on with the order before, as long as it is not contradicted") {
  const OrderCandidates candidates{.given = {order_of(kRead)}, .before = order_of("sequential")};
  Book book(candidates, true);
  CHECK(book.follows_before);
  CHECK(book.next() == "sequential");
  const auto given_up = book.contradict("sequential");
  REQUIRE(given_up);
  CHECK(given_up->next == kRead);
  CHECK_FALSE(book.follows_before);  // the next process is not to begin with it again

  Book set(candidates, true);
  set->set({.order = order_of(kRead), .may_be_wrong = true});
  CHECK_FALSE(set.follows_before);
  Book fresh(candidates, false);
  CHECK(fresh.next() == kRead);
  Book unknown({.given = {order_of(kRead)}}, true);  // the order before cannot be opened any more
  CHECK_FALSE(unknown.follows_before);
  CHECK(unknown.next() == kRead);
}

TEST_CASE("what is learned is followed where no order is known, and kept for the next process") {
  Book book({.learn = true});
  book.follower.wants = false;
  book.read_epoch(0);
  CHECK(book.follower.told.empty());  // it is of no use
  book.follower.wants = true;
  book.read_epoch(1);
  CHECK(book.follower.last() == kRead);
  CHECK_FALSE(book.follower.told.back().may_be_wrong);
  const std::string by = book->found().by;
  CHECK(by != "");
  CHECK(book.kept == by + ": " + kRead);
}

TEST_CASE("a process that has other samples is not told of what was found") {
  Book book({.learn = true});
  book.read_epoch(0);
  REQUIRE(book.kept != "");
  std::optional<std::string> kept;
  book->leave_to_other_samples([&] { kept = book.kept; });
  CHECK(kept == "");
}

TEST_CASE("an order that is set goes before what was found, which comes back when it is given up") {
  Book book({.learn = true});
  book.read_epoch(0);
  REQUIRE(book->found().by != "");
  book->set({.order = order_of("sequential"), .may_be_wrong = true});
  CHECK(book->found().by == "");
  CHECK(book.kept == "");
  const std::size_t told = book.follower.told.size();
  book.read_epoch(1);
  CHECK(book.follower.told.size() == told);
  CHECK(book.contradict("sequential"));
  book.read_epoch(2);
  CHECK(book.follower.last() == kRead);
  CHECK(book->found().by != "");
}

TEST_CASE("an order that was found and is contradicted is not followed again at once") {
  Book book({.learn = true});
  book.read_epoch(0);
  REQUIRE(book->found().by != "");
  CHECK(book.contradict(kRead));
  CHECK(book->found().by == "");
  CHECK(book.kept == "");
  const std::size_t told = book.follower.told.size();
  book.read_epoch(1);
  CHECK(std::none_of(book.follower.told.begin() + static_cast<std::ptrdiff_t>(told), book.follower.told.end(),
                     [](const OrderPosition& each) { return each.order && each.order->spec() == kRead; }));
}

TEST_CASE("a book that is to learn anew drops the order that was given, and finds the one that is read") {
  Book book({.given = {order_of("sequential")}, .learn = true});
  book.read_epoch(0);
  CHECK(book.follower.told.empty());
  book->learn_anew();
  REQUIRE(book.follower.told.size() == 1);
  CHECK(book.follower.last() == "");
  book.read_epoch(1);
  CHECK(book.follower.last() == kRead);
}

TEST_CASE("an order that the process before found is followed first, and forgotten once it is contradicted") {
  Book book({.given = {order_of("sequential"), order_of(kRead)}, .found_by = "list", .learn = true});
  CHECK(book.next() == "sequential");
  CHECK(book->found().by == "list");
  CHECK_FALSE(book.kept);
  const auto given_up = book.contradict("sequential");
  REQUIRE(given_up);
  CHECK(given_up->next == kRead);
  CHECK(book->found().by == "");
  CHECK(book.kept == "");  // the next process is not given it again
}

TEST_CASE("a book that learns nothing says so") {
  Book book({.given = {order_of("sequential")}});
  CHECK_FALSE(book->learns());
  CHECK_FALSE(book->on_opens(order_of(kRead)->epoch(0).value()));
  CHECK(book.follower.told.empty());
  CHECK(book->found().by == "");
}

}  // namespace
}  // namespace headrace::cache::order_book_test
