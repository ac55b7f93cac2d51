// SPDX-License-Identifier: Apache-2.0
// headrace order: prints the samples of an epoch; headrace order show and set ask a mount for its order and change it;
// headrace order tell and number say which samples a loader reads next, by the mount's numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

inline constexpr std::uint64_t kWholeEpoch = std::numeric_limits<std::uint64_t>::max();

struct OrderArguments {
  std::filesystem::path source;
  CacheArguments cache;  // only how the data set is listed
  std::string order;
  std::string records;  // of the packs in the source; empty: the samples are files
  std::uint64_t epoch = 0;
  std::uint64_t count = kWholeEpoch;
  std::string print = "path";   // "path" or "index"
  bool list = false;            // print the kinds of orders instead
  std::filesystem::path check;  // compare with what was opened: a list, a mount, "-"; empty: print the samples
};
[[nodiscard]] io::Status run_order(const OrderArguments& arguments);
// Errors: kInvalidArgument where the opens are not the order's, with what fits.
[[nodiscard]] io::Status check_order(const OrderArguments& arguments);

struct OrderShowArguments {
  std::filesystem::path mount_point;
  bool json = false;
};
[[nodiscard]] io::Status run_order_show(const OrderShowArguments& arguments);

struct OrderSetArguments {
  std::filesystem::path mount_point;
  std::vector<std::string> orders;
  std::uint64_t epoch = 0;
};
[[nodiscard]] io::Status run_order_set(const OrderSetArguments& arguments);

struct OrderTellArguments {
  std::filesystem::path mount_point;
  std::filesystem::path file;  // sample numbers, one a line; "-": standard input
  std::string name = "told";
  std::uint64_t batch = 1;
  std::uint64_t workers = 0;
  std::uint64_t prefetch_factor = 2;
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
};
[[nodiscard]] io::Status run_order_tell(const OrderTellArguments& arguments);

struct OrderNumberArguments {
  std::filesystem::path mount_point;
  bool null = false;  // end each path with a zero byte
};
[[nodiscard]] io::Status run_order_number(const OrderNumberArguments& arguments);

void add_order_command(Command& program);

}  // namespace headrace::cli
