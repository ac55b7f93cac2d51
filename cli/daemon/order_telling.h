// SPDX-License-Identifier: Apache-2.0
// The epochs that a loader tells, put together from requests that hold a part each: a line on the control socket is
// short, and an epoch has millions of numbers. Where a loader has several ranks, each tells what it reads, and the
// epoch is there once all have: their reads in turn, as the ranks of one order go side by side.
//
//   OrderTelling telling(sample_count);
//   HEADRACE_TRY(told, telling.take(arguments));   // {"name", "total", "offset", "numbers", "batch", "rank", ...}
//   if (told) mount.set_order(told->order, told->epoch);
//
// Thread-safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
  // The epoch that this part completes; nullopt: more is to come, of this rank or of others. A part with offset 0
  // begins its rank's epoch anew. Errors: kInvalidArgument (a number that is no sample, a part out of turn, an epoch
  // that is empty or too long).
  [[nodiscard]] io::Result<std::optional<Told>> take(const nlohmann::json& arguments);

 private:
  // Who tells, and how its workers open what they are given.
  struct Teller {
    std::string name;
    cache::WorkerLayout layout;  // of one rank; `ranks`: how many tell
    [[nodiscard]] bool is(const Teller& other) const;
  };
  // What one rank has told since all had.
  struct Share {
    std::uint64_t total = 0;  // 0: nothing
    std::vector<cache::SampleIndex> samples;
    [[nodiscard]] bool is_whole() const { return total > 0 && samples.size() == total; }
  };
  struct Loader {
    Teller teller;
    std::vector<Share> shares;  // by rank
  };
  [[nodiscard]] static io::Result<Teller> read_teller(const nlohmann::json& arguments);
  // The share that these arguments begin, or go on with.
  [[nodiscard]] io::Result<Share*> begin(Loader& loader, const nlohmann::json& arguments) const;
  [[nodiscard]] static io::Result<Share*> go_on(Loader& loader, const nlohmann::json& arguments);
  [[nodiscard]] io::Status add(Share& share, const nlohmann::json& numbers) const;
  [[nodiscard]] Loader& loader_of(const Teller& teller);
  [[nodiscard]] Told finish(Loader& loader);

  const std::uint64_t sample_count_;
  std::deque<Loader> loaders_;               // who told last is at the back
  std::shared_ptr<cache::ToldOrder> order_;  // the last one; null: none yet
  Teller order_teller_;
};

}  // namespace headrace::cli
