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
  double latency = 0.02;    // seconds
  double slow_until = 0.6;  // seconds
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
        free_at_ = std::max(free_at_, now_) + draw(0.7, 1.3) * factor() / store_.rate;
        events_.push({.time = free_at_, .sent = event.sent, .is_ready = false});
        continue;
      }
      --in_flight;
      ++done;
      if (2 * done > count) limits_ += limit();
      if (window != nullptr) window->on_done(kStart + seconds_of(now_), seconds_of(now_ - event.sent), false);
    }
    mean_limit_ = limits_ / (count - count / 2);
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
    for (unsigned seed = 1; seed <= 10; ++seed) {
      RequestWindow window(64, 1024);
      const Store store{.rate = rate};
      Model model(store, seed);
      model.time_of(static_cast<unsigned>(20 * rate), &window);
      const double enough = rate * store.latency;
      CAPTURE(rate);
      CAPTURE(seed);
      CHECK(model.mean_limit() >= enough * 0.9);
      CHECK(model.mean_limit() <= enough * 4);
    }
  }
}

TEST_CASE("the window halves once for a 503, and comes back") {
  RequestWindow window(64, 1024);
  Clock::time_point now{std::chrono::hours(1)};
  // A store whose rate is requests over 50 ms, up to 4 000 in a second.
  const auto run = [&](milliseconds time) {
    for (const Clock::time_point end = now + time; now < end;) {
      const double rate = std::min(4000.0, window.limit() / 0.05);
      now += seconds_of(1 / rate);
      window.on_done(now, seconds_of(window.limit() / rate), false);
    }
  };
  run(milliseconds(60));
  CHECK(window.limit() == 64);
  run(milliseconds(180));  // twice two latencies, and the first one
  CHECK(window.limit() == 256);
  CHECK_FALSE(window.is_recovering());
  for (int i = 0; i < 100; ++i) window.on_slow_down(now);
  CHECK(window.limit() == 128);
  CHECK(window.is_recovering());
  run(seconds(5));
  CHECK(window.limit() == 256);
  CHECK_FALSE(window.is_recovering());
  for (int i = 0; i < 40; ++i) window.on_slow_down(now += seconds(1));
  CHECK(window.limit() == 4);
  run(seconds(20));
  CHECK(window.limit() > 128);
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
