// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/depth_controller.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <doctest/doctest.h>

namespace depth_controller_test {

using headrace::io::internal::depth_options;
using headrace::io::internal::DepthController;
using namespace std::chrono_literals;

namespace {

// A device whose throughput depends on how many operations it is given at once.
struct Device {
  DepthController depth{{.initial = 16, .max = 128}};
  DepthController::TimePoint now = {};

  void run(int operations, const std::function<double(unsigned)>& per_second) {
    for (int i = 0; i < operations; ++i) {
      now += std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / per_second(depth.depth())));
      depth.on_finished(100'000, true, now);
    }
  }
};

}  // namespace

TEST_CASE("the depth grows while throughput rises, up to its bound") {
  Device device;
  device.run(1000, [](unsigned in_flight) { return in_flight / 0.04; });  // a share with 40 ms per file
  CHECK(device.depth.depth() == 128);
}

TEST_CASE("the depth stays where more does not help, and comes back after a try") {
  Device device;
  unsigned deepest = 0;
  for (int i = 0; i < 100; ++i) {
    device.run(200, [](unsigned in_flight) { return std::min(in_flight, 32u) / 0.01; });
    deepest = std::max(deepest, device.depth.depth());
  }
  CHECK(deepest == 64);
  CHECK(device.depth.depth() <= 64);
}

TEST_CASE("the depth follows a device that becomes faster") {
  Device device;
  device.run(500, [](unsigned) { return 1000.0; });
  CHECK(device.depth.depth() <= 32);
  device.run(20'000, [](unsigned in_flight) { return in_flight * 100.0; });
  CHECK(device.depth.depth() == 128);
}

TEST_CASE("a device that turns out to seek gets few, and as many as help again when it does not") {
  const auto any_depth_helps = [](unsigned in_flight) { return in_flight * 100.0; };
  Device device;
  device.run(1000, any_depth_helps);
  CHECK(device.depth.depth() == 128);
  device.depth.set_rotational(true);
  CHECK(device.depth.depth() == 32);
  device.run(20'000, any_depth_helps);
  CHECK(device.depth.depth() == 32);
  device.depth.set_rotational(false);
  device.run(1000, any_depth_helps);
  CHECK(device.depth.depth() == 128);
}

TEST_CASE("operations that did not have to wait say nothing about the depth") {
  DepthController depth({.initial = 16, .max = 128});
  DepthController::TimePoint now{};
  for (int i = 0; i < 1000; ++i) depth.on_finished(100'000, false, now += 1us);
  CHECK(depth.depth() == 16);
}

TEST_CASE("a hard disk gets few at once until more prove better, and the bound of the options holds") {
  CHECK(depth_options({.rotational = true}, 512).initial == 4);
  CHECK(depth_options({.rotational = true}, 512).max == 32);
  CHECK(depth_options({.queue_depth_max = 2, .rotational = true}, 512).max == 2);
  CHECK(depth_options({.queue_depth_max = 0}, 512).max == 1);
  CHECK(depth_options({.queue_depth_max = 100'000}, 512).max == 512);
  CHECK(depth_options({.queue_depth_max = 8}, 512).initial == 8);
}

}  // namespace depth_controller_test
