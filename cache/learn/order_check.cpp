// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order_check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <utility>

#include "headrace/cache/learn/reading.h"
#include "headrace/cache/learn/search.h"

namespace headrace::cache {
namespace {

// An epoch is looked for among so many: a job that runs for long is checked with --epoch.
constexpr std::uint64_t kEpochs = 64;
// Numbers of opens that an epoch is recognised by. Of a small data set few opens tell more than many, which have
// neighbours in any order.
constexpr std::size_t kWindows[] = {kOpensToCheck, 48, 128, 512, OpenSet::kMost};

// One order is asked for, so that less is needed than for a lock: kEpochs of it, in each of the windows, at as many
// strides (evidence.h) are 2^13 tries, and one in 2^11 says that a wrong order begins right.
constexpr double kBits = 24;
constexpr double kDirection = 16;

constexpr SampleIndex kNowhere = UINT32_MAX;

// One epoch of the order, and where the reader is in it.
class Follower {
 public:
  Follower(const std::vector<SampleIndex>& epoch, const Fit& fit, std::uint64_t sample_count)
      : position_of_(sample_count, kNowhere) {
    for (std::size_t i = epoch.size(); i-- > 0;) position_of_[epoch[i]] = static_cast<SampleIndex>(i);
    const std::uint64_t first = first_position(fit);
    place_ = static_cast<double>(first);
    // Positions up to which 97 % of the opens reach: strays lie anywhere.
    const std::uint64_t last = std::max(fit.positions[fit.positions.size() * 97 / 100], first);
    constexpr double kWidestLoader = 65'536;  // 8 ranks x 8 workers x batches of 256, twice over, with room
    reach_ = std::max({std::min(kWidestLoader, static_cast<double>(sample_count) / 8),
                       2 * static_cast<double>(last - first + 1), 32.0});
  }

  // Whether it is near the reader's place, and not read yet.
  [[nodiscard]] bool take(SampleIndex sample) {
    const SampleIndex position = position_of_[sample];
    if (position == kNowhere || std::abs(static_cast<double>(position) - place_) > reach_) return false;
    position_of_[sample] = kNowhere;
    constexpr double kPull = 1.0 / 8;  // follows 8 ranks, of which one reads here, at 64 positions behind
    place_ += (static_cast<double>(position) - place_) * kPull;
    return true;
  }
  [[nodiscard]] bool is_left(SampleIndex sample) const { return position_of_[sample] != kNowhere; }

 private:
  std::vector<SampleIndex> position_of_;  // of what is not read yet
  double place_ = 0;
  double reach_ = 0;
};

class Checker {
 public:
  Checker(const Order& order, std::span<const SampleIndex> opens, const OrderCheckOptions& options)
      : order_(order), opens_(opens), options_(options) {}

  [[nodiscard]] OrderCheck run() {
    std::size_t at = 0;
    while (window_from(at, kOpensToCheck).size() == kOpensToCheck) {
      if (!find_epoch(at)) {
        differ(at);
        break;
      }
      at = follow(at);
    }
    return std::move(check_);
  }

 private:
  [[nodiscard]] OpenSet window_from(std::size_t at, std::size_t size) const {
    OpenSet window;
    for (std::size_t i = at; i < opens_.size() && window.size() < size; ++i) static_cast<void>(window.add(opens_[i]));
    return window;
  }

  // The epoch that the opens from there on are of.
  [[nodiscard]] bool find_epoch(std::size_t at) {
    // Once most samples were opened, blocks of neighbours fill the listing, too.
    const std::size_t most = std::max<std::size_t>(kOpensToCheck, options_.sample_count / 2);
    for (const std::size_t wanted : kWindows) {
      const std::size_t size = std::min(wanted, most);
      const OpenSet window = window_from(at, size);
      if (find_epoch(window)) return true;
      if (window.size() < size) return false;  // there are no more opens
    }
    return false;
  }

  [[nodiscard]] bool find_epoch(const OpenSet& window) {
    const std::atomic<bool> cancelled = false;
    const SearchTask task{.n = options_.sample_count,
                          .opens = &window,
                          .cancelled = &cancelled,
                          .least_bits = kBits,
                          .least_direction_bits = kDirection};
    const std::uint64_t likely = check_.stretches.empty() ? options_.first_epoch : check_.stretches.back().epoch + 1;
    for (std::uint64_t i = 0; i < kEpochs; ++i) {
      // What comes next, then the others from the first one on.
      const std::uint64_t epoch = i == 0 ? likely : options_.first_epoch + i - 1;
      Result<std::vector<SampleIndex>> samples = order_.epoch(epoch);
      std::optional<Fit> fit = convincing_fit(task, order_, samples);
      if (!fit) continue;
      check_.stretches.push_back({.epoch = epoch, .position = first_position(*fit)});
      samples_ = std::move(*samples);
      follower_.emplace(samples_, *fit, options_.sample_count);
      return true;
    }
    return false;
  }

  // Up to where the opens are of another epoch, or of none.
  [[nodiscard]] std::size_t follow(std::size_t at) {
    std::vector<bool> seen(options_.sample_count, false);
    std::deque<Judged> recent;
    std::size_t strays = 0;  // of the recent ones
    for (std::size_t i = at; i < opens_.size(); ++i) {
      if (seen[opens_[i]] && was_just_opened(at, i)) continue;
      seen[opens_[i]] = true;
      recent.push_back({.open = i, .before = check_.stretches.back(), .fits = follower_->take(opens_[i])});
      OrderCheck::Stretch& stretch = check_.stretches.back();
      ++stretch.opens;
      stretch.fitting += recent.back().fits ? 1 : 0;
      strays += recent.back().fits ? 0 : 1;
      if (strays >= kStraysMax) return go_back_to_stray(recent);
      if (recent.size() < kRecent) continue;
      strays -= recent.front().fits ? 0 : 1;
      recent.pop_front();
    }
    return strays >= kOpensToCheck ? go_back_to_stray(recent) : opens_.size();
  }

  // By another rank, or twice by the same.
  [[nodiscard]] bool was_just_opened(std::size_t begin, std::size_t at) const {
    const std::size_t before = std::min(at - begin, kJustNow);
    const auto recent = opens_.subspan(at - before, before);
    return std::ranges::find(recent, opens_[at]) != recent.end();
  }

  struct Judged {
    std::size_t open = 0;
    OrderCheck::Stretch before;
    bool fits = false;
  };
  // What came after the first stray of these is not the epoch's. Not the very first: each stretch has an open at least.
  [[nodiscard]] std::size_t go_back_to_stray(const std::deque<Judged>& recent) {
    const auto first = std::find_if(recent.begin() + 1, recent.end(), [](const Judged& each) { return !each.fits; });
    check_.stretches.back() = first->before;
    return first->open;
  }

  void differ(std::size_t at) {
    check_.difference = OrderCheck::Difference{.open = at, .opened = opens_[at]};
    if (!follower_) return;
    const auto next = std::ranges::find_if(samples_, [&](SampleIndex sample) { return follower_->is_left(sample); });
    if (next == samples_.end()) return;
    check_.difference->position = static_cast<std::uint64_t>(next - samples_.begin());
    check_.difference->expected = *next;
  }

  // As a mount that gives an order up.
  static constexpr std::size_t kRecent = 64;
  static constexpr std::size_t kStraysMax = 40;
  static constexpr std::size_t kJustNow = 256;  // as the learner

  const Order& order_;
  const std::span<const SampleIndex> opens_;
  const OrderCheckOptions options_;
  OrderCheck check_;
  std::vector<SampleIndex> samples_;  // of the epoch under way
  std::optional<Follower> follower_;  // null: none is known
};

}  // namespace

OrderCheck check_order(const Order& order, std::span<const SampleIndex> opens, const OrderCheckOptions& options) {
  return Checker(order, opens, options).run();
}

}  // namespace headrace::cache
