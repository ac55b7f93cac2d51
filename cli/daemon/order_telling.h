// SPDX-License-Identifier: Apache-2.0
// The epochs that a loader tells, put together from requests that hold a part each: a line on the control socket is
// short, and an epoch has millions of numbers.
//
//   OrderTelling telling(sample_count);
//   HEADRACE_TRY(told, telling.take(arguments));   // {"name", "total", "offset", "numbers", "batch", "workers", ...}
//   if (told) mount.tell_order(told->order, told->epoch);
//
// Thread-safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "headrace/cache/told_order.h"
#include "headrace/io/result.h"

namespace headrace::cli {

// Numbers in one request: 4096 of at most ten digits and a comma are 44 KiB, within kRequestBytesMax.
inline constexpr std::size_t kToldNumbersMax = 4096;

class OrderTelling {
 public:
  explicit OrderTelling(std::uint64_t sample_count) : sample_count_(sample_count) {}

  struct Told {
    std::shared_ptr<const cache::ToldOrder> order;
    std::uint64_t epoch = 0;
  };
  // The epoch that this part completes; nullopt: more is to come. A part with offset 0 begins an epoch anew, whoever
  // told another one. Errors: kInvalidArgument (a number that is no sample, a part out of turn, an epoch that is empty
  // or too long).
  [[nodiscard]] io::Result<std::optional<Told>> take(const nlohmann::json& arguments);

 private:
  // Who tells, and how its workers open what they are given.
  struct Teller {
    std::string name;
    cache::WorkerLayout layout;
  };
  [[nodiscard]] io::Result<Teller> read_teller(const nlohmann::json& arguments) const;
  [[nodiscard]] io::Status begin(const nlohmann::json& arguments);
  [[nodiscard]] io::Status add(const nlohmann::json& numbers);
  [[nodiscard]] Told finish();

  const std::uint64_t sample_count_;
  Teller teller_;
  std::uint64_t total_ = 0;  // of the epoch that is being told
  std::vector<cache::SampleIndex> samples_;
  std::shared_ptr<cache::ToldOrder> order_;  // the last one; null: none yet
  std::string order_name_;
};

}  // namespace headrace::cli
