// SPDX-License-Identifier: Apache-2.0
// How many requests are in flight, over a store that is a model: no server, no clock, and the same in every run.
#include "headrace/cache/source/object/request_window.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace request_window_test {
namespace {

using headrace::cache::RequestWindow;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = RequestWindow::Clock;

Clock::duration seconds_of(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// Each request is ready after about `latency`, one of fifty after up to four times as long; then answers go out one
// after the other, `rate` a second. In the first half second there are pauses in which that takes 2 to 8 times as long,
// as on a machine where a training starts.
struct Store {
  double rate = 8'000;
  double latency = 0.02;     // seconds
  double slow_until = 0.6;   // seconds
  double per_in_flight = 0;  // how much longer the store or its client takes for each request that is in flight
};

class Model {
 public:
  Model(const Store& store, std::mt19937::result_type seed) : store_(store), random_(seed) {
    for (double at = draw(0, 0.3) * store.slow_until; at < store.slow_until; at += draw(0, 0.15)) {
      pauses_.push_back({.begin = at, .end = at + draw(0.02, 0.22), .factor = draw(2, 8)});
      at = pauses_.back().end;
    }
  }

  // Seconds until `count` objects are there, with as many requests in flight as the window lets. Without one: 1 024.
  double time_of(unsigned count, RequestWindow* window) {
    const auto limit = [&] { return window != nullptr ? window->limit() : 1024; };
    unsigned in_flight = 0;
    unsigned sent = 0;
    for (unsigned done = 0; done < count;) {
      for (; in_flight < limit() && sent < count; ++in_flight, ++sent) send();
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.is_ready) {
        free_at_ =
            std::max(free_at_, now_) + draw(0.7, 1.3) * factor() * (1 + store_.per_in_flight * in_flight) / store_.rate;
        events_.push({.time = free_at_, .sent = event.sent, .is_ready = false});
        continue;
      }
      --in_flight;
      ++done;
      if (2 * done > count) limits_ += limit();
      if (window != nullptr) window->on_done(kStart + seconds_of(now_), seconds_of(now_ - event.sent), false);
    }
    const unsigned second_half = count - count / 2;
    mean_limit_ = limits_ / second_half;
    return now_;
  }
  // Of the second half of the answers: a trial is under way now and then.
  [[nodiscard]] double mean_limit() const { return mean_limit_; }

 private:
  static constexpr Clock::time_point kStart{std::chrono::hours(1)};
  struct Event {
    double time;
    double sent;
    bool is_ready;  // else the answer is there
    friend bool operator>(const Event& a, const Event& b) { return a.time > b.time; }
  };
  struct Pause {
    double begin;
    double end;
    double factor;
  };

  double draw(double from, double to) { return from + (to - from) * static_cast<double>(random_()) / 4294967296.0; }
  double factor() const {
    const auto in = std::find_if(pauses_.begin(), pauses_.end(),
                                 [&](const Pause& pause) { return now_ >= pause.begin && now_ < pause.end; });
    return in == pauses_.end() ? 1 : in->factor;
  }
  void send() {
    const double times = draw(0.95, 1.05) + (draw(0, 1) < 0.02 ? draw(0, 3) : 0);
    events_.push({.time = now_ + store_.latency * times, .sent = now_, .is_ready = true});
  }

  const Store store_;
  std::mt19937 random_;
  std::vector<Pause> pauses_ = {};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_ = {};
  double now_ = 0;
  double free_at_ = 0;
  double limits_ = 0;
  double mean_limit_ = 0;
};

TEST_CASE("a slow first half second does not keep the window small") {
  for (const double rate : {3'000.0, 6'000.0, 8'000.0, 12'000.0}) {
    for (const double latency : {0.02, 0.06}) {
      for (unsigned seed = 1; seed <= 30; ++seed) {
        const Store store{.rate = rate, .latency = latency};
        RequestWindow window(64, 1024);
        const double took = Model(store, seed).time_of(24'000, &window);
        const double least = Model(store, seed).time_of(24'000, nullptr);
        CAPTURE(rate);
        CAPTURE(latency);
        CAPTURE(seed);
        CHECK(took < least + 0.25 * std::max(least, 3.0));
      }
    }
  }
}

TEST_CASE("the window is as large as the store's rate takes, and finds back from too large") {
  for (const double rate : {1'000.0, 3'000.0, 8'000.0}) {
    for (const double slow_until : {0.6, 20.0}) {
      for (unsigned seed = 1; seed <= 10; ++seed) {
        RequestWindow window(64, 1024);
        const Store store{.rate = rate, .slow_until = slow_until};
        Model model(store, seed);
        model.time_of(static_cast<unsigned>(20 * rate), &window);
        const double enough = std::max(64.0, rate * store.latency);
        CAPTURE(rate);
        CAPTURE(slow_until);
        CAPTURE(seed);
        CHECK(model.mean_limit() >= enough * 0.9);
        CHECK(model.mean_limit() <= enough * 2.5);
      }
    }
  }
}

TEST_CASE("where more requests in flight take more time each, the window does not overshoot") {
  for (const double rate : {6'000.0, 8'000.0, 12'000.0}) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      RequestWindow window(64, 1024);
      const Store store{.rate = rate, .per_in_flight = 1.0 / 1024};
      Model model(store, seed);
      const double took = model.time_of(24'000, &window);
      RequestWindow fixed(256, 256);
      CAPTURE(rate);
      CAPTURE(seed);
      CHECK(took < 1.15 * Model(store, seed).time_of(24'000, &fixed));
      CHECK(model.mean_limit() <= 2.2 * rate * store.latency);
    }
  }
}

// Requests over `latency`, up to `rate` in a second; `demand`: how many there are at most.
struct Steady {
  RequestWindow& window;
  double latency = 0.05;
  double rate = 4000;
  unsigned demand = 10'000;
  Clock::time_point now{std::chrono::hours(1)};

  // The mean limit: for a moment, now and then, it is half.
  double run(milliseconds time) {
    double sum = 0;
    unsigned count = 0;
    for (const Clock::time_point end = now + time; now < end; ++count) {
      sum += window.limit();
      const unsigned in_flight = std::min(window.limit(), demand);
      const double here = std::min(rate, in_flight / latency);
      now += seconds_of(1 / here);
      window.on_done(now, seconds_of(in_flight / here), demand <= window.limit());
    }
    return sum / count;
  }
};

TEST_CASE("the window halves once for a 503, and comes back") {
  RequestWindow window(64, 1024);
  Steady store{.window = window};
  store.run(milliseconds(40));
  CHECK(window.limit() == 64);
  store.run(milliseconds(300));
  CHECK(window.limit() >= 200);
  store.run(seconds(2));
  const unsigned before = window.limit();
  CHECK(before >= 200);
  CHECK(before <= 400);
  CHECK_FALSE(window.is_recovering());
  for (int i = 0; i < 100; ++i) window.on_slow_down(store.now);
  CHECK(window.limit() == before / 2);
  CHECK(window.is_recovering());
  store.run(seconds(5));
  CHECK(window.limit() <= before);
  CHECK_FALSE(window.is_recovering());
  for (int i = 0; i < 40; ++i) window.on_slow_down(store.now += seconds(1));
  CHECK(window.limit() == 4);
  store.run(seconds(20));
  CHECK(window.limit() > 128);
}

TEST_CASE("a store that becomes slower or faster for good gets another number of requests") {
  RequestWindow window(64, 1024);
  Steady store{.window = window};
  store.run(seconds(10));
  CHECK(store.run(seconds(10)) <= 2.2 * 200);
  store.latency = 0.2;  // 800 in flight bring what 200 brought before
  store.run(seconds(15));
  CHECK(store.run(seconds(10)) >= 800);
  store.latency = 0.05;
  store.run(seconds(15));
  const double limit = store.run(seconds(10));
  CHECK(limit >= 200);
  CHECK(limit <= 2.2 * 200);
}

TEST_CASE("that requests wait in the store shows, too, where there are no more to send") {
  RequestWindow window(64, 1024);
  Steady store{.window = window, .latency = 0.25};
  store.run(seconds(3));
  CHECK(window.limit() == 1024);
  store.latency = 0.05;
  store.demand = 1000;
  store.run(seconds(5));
  const double limit = store.run(seconds(10));
  CHECK(limit >= 200);
  CHECK(limit <= 2.5 * 200);
}

TEST_CASE("one 503 of a hundred, and answers that nothing waits behind, leave the window alone") {
  Clock::time_point now{std::chrono::hours(1)};
  RequestWindow unlucky(64, 64);
  for (int i = 0; i < 20'000; ++i) {
    unlucky.on_done(now += milliseconds(1), milliseconds(64), false);
    if (i % 100 == 0) unlucky.on_slow_down(now);
    CHECK_FALSE(unlucky.is_recovering());
  }
  RequestWindow idle(64, 1024);
  for (int i = 0; i < 10'000; ++i) idle.on_done(now += milliseconds(1), milliseconds(64), true);
  CHECK(idle.limit() == 64);
}

}  // namespace

}  // namespace request_window_test
