// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/key_schedule.h"

#include <chrono>
#include <optional>

#include <doctest/doctest.h>

namespace key_schedule_test {
namespace {

using headrace::cache::KeySchedule;
using Now = KeySchedule::Now;
using namespace std::chrono_literals;

constexpr Now kStart{KeySchedule::Steady(1000h), KeySchedule::Wall(500'000h)};

Now after(std::chrono::seconds time) {
  return {kStart.steady + time, kStart.wall + time};
}

std::chrono::seconds wait(const KeySchedule& schedule, const Now& now) {
  return std::chrono::duration_cast<std::chrono::seconds>(schedule.next_look() - now.steady);
}

}  // namespace

TEST_CASE("keys are looked for five minutes before they expire, and at half of a shorter life") {
  CHECK(wait({kStart.wall + 1h, kStart}, kStart) == 55min);
  CHECK(wait({kStart.wall + 10min, kStart}, kStart) == 5min);
  CHECK(wait({kStart.wall + 4s, kStart}, kStart) == 2s);
  CHECK(wait({kStart.wall + 1s, kStart}, kStart) == 1s);
  CHECK(wait({std::nullopt, kStart}, kStart) > 24h * 300);
}

TEST_CASE("keys that stay and get a later end are not looked for until then") {
  KeySchedule schedule(kStart.wall + 4s, kStart);
  CHECK_FALSE(schedule.on_found(kStart.wall + 1h, after(2s)));
  CHECK(wait(schedule, after(2s)) == 55min - 2s);
}

TEST_CASE("keys that stay and keep their end are looked for once a second at most") {
  KeySchedule schedule(kStart.wall + 2s, kStart);
  CHECK_FALSE(schedule.on_found(kStart.wall + 2s, after(1s)));
  CHECK(wait(schedule, after(1s)) == 1s);
  CHECK_FALSE(schedule.may_look(after(1s).steady + 999ms));
  CHECK(schedule.may_look(after(2s).steady));
}

TEST_CASE("keys that have ended by this machine's clock are looked for ever more rarely, and said to be once") {
  KeySchedule schedule(kStart.wall - 1h, kStart);
  CHECK(wait(schedule, kStart) == 1s);
  CHECK(schedule.on_found(kStart.wall - 1h, after(1s)));
  CHECK(wait(schedule, after(1s)) == 10s);
  CHECK_FALSE(schedule.on_found(kStart.wall - 1h, after(11s)));
  CHECK(wait(schedule, after(11s)) == 20s);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(schedule.on_found(kStart.wall - 1h, after(31s)));
  CHECK(wait(schedule, after(31s)) == 5min);
  CHECK_FALSE(schedule.on_found(kStart.wall + 1h, after(400s)));
  CHECK(schedule.on_found(kStart.wall, after(401s)));
  CHECK(wait(schedule, after(401s)) == 10s);
}

TEST_CASE("a look that finds no keys is repeated after ten seconds") {
  KeySchedule schedule(kStart.wall + 1h, kStart);
  schedule.on_none(after(55min));
  CHECK(wait(schedule, after(55min)) == 10s);
}

}  // namespace key_schedule_test
