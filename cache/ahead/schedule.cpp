// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/ahead/schedule.h"

#include <algorithm>
#include <map>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

std::uint64_t last_of(const ScheduleOptions& options) {
  if (options.epoch_count == 0) return 0;  // never reached: see the constructor
  const std::uint64_t more = options.epoch_count - 1;
  return more > UINT64_MAX - options.first_epoch ? UINT64_MAX : options.first_epoch + more;
}

std::uint64_t lanes_of(const WorkerLayout& workers) {
  const std::uint64_t lanes = WorkerSequence(0, workers).lanes();
  return lanes <= Schedule::kLanesMax ? lanes : 1;
}

}  // namespace

Schedule::Schedule(const Order& order, const ScheduleOptions& options)
    : order_(order),
      sample_count_(options.sample_count),
      workers_(options.workers),
      lanes_(lanes_of(options.workers)),
      last_epoch_(last_of(options)),
      next_epoch_(options.first_epoch),
      finished_(options.epoch_count == 0) {}

std::optional<SampleIndex> Schedule::at(Place place) {
  while (place >= end()) {
    if (!draw_next()) return std::nullopt;
  }
  const Epoch& epoch = epoch_of(place);
  return epoch.samples[place - epoch.first];
}

Place Schedule::end() const {
  return epochs_.empty() ? 0 : epochs_.back().end();
}

const Schedule::Epoch& Schedule::epoch_of(Place place) const {
  HEADRACE_ASSERT(!epochs_.empty() && place >= epochs_.front().first);
  return epochs_.size() > 1 && place >= epochs_[1].first ? epochs_[1] : epochs_[0];
}

std::uint64_t Schedule::lane_of(Place place) const {
  if (lanes_ == 1) return 0;
  const Epoch& epoch = epoch_of(place);
  return epoch.sequence.lane_of(place - epoch.first);
}

// A lane names its rank, too, but where all lanes are taken for one.
std::uint64_t Schedule::strand_of(Place place, std::uint64_t lane) const {
  if (workers_.ranks <= 1) return lane;
  if (lanes_ > 1) return lane % workers_.ranks;
  const Epoch& epoch = epoch_of(place);
  return epoch.sequence.rank_of(place - epoch.first);
}

std::optional<Place> Schedule::first_in_lane(Place place, std::uint64_t lane) {
  while (at(place)) {
    if (lanes_ == 1) return place;
    const Epoch& epoch = epoch_of(place);
    const auto step = epoch.sequence.first_in_lane(place - epoch.first, lane);
    if (step) return epoch.first + *step;
    place = epoch.end();
  }
  return std::nullopt;
}

std::optional<Place> Schedule::after_in_lane(Place place) const {
  const Epoch& epoch = epoch_of(place);
  if (lanes_ == 1) return place + 1 < epoch.end() ? std::optional(place + 1) : std::nullopt;
  const auto step = epoch.sequence.next_in_lane(place - epoch.first);
  return step ? std::optional(epoch.first + *step) : std::nullopt;
}

Place Schedule::epoch_start(Place place) const {
  return epochs_.empty() ? 0 : epoch_of(place).first;
}

Schedule::Position Schedule::position_of(Place place) const {
  if (epochs_.empty()) return {.epoch = next_epoch_, .position = 0};
  const Epoch& epoch = epoch_of(place);
  const std::uint64_t step = std::min<std::uint64_t>(place - epoch.first, epoch.samples.size());
  const bool at_end = step == epoch.samples.size();
  return {.epoch = epoch.number, .position = at_end ? step : epoch.sequence.position_of(step)};
}

Schedule::Position Schedule::lowest_position(Place place, const std::function<bool(Place)>& wanted) const {
  Position lowest = position_of(place);
  if (epochs_.empty() || place >= epoch_of(place).end()) return lowest;
  const Epoch& epoch = epoch_of(place);
  const std::uint64_t end = epoch.sequence.group_end(place - epoch.first);
  for (std::uint64_t position = epoch.sequence.group_begin(place - epoch.first); position < end; ++position) {
    if (!wanted(epoch.first + epoch.sequence.step_of(position))) continue;
    lowest.position = position;
    break;
  }
  return lowest;
}

void Schedule::let_go_before(Place place) {
  while (epochs_.size() > 1 && epochs_.front().end() <= place) epochs_.pop_front();
}

// False: two epochs are held, or there are no more.
bool Schedule::draw_next() {
  if (finished_ || epochs_.size() == 2) return false;
  std::optional<Epoch> epoch = draw(next_epoch_, end());
  if (!epoch) {
    finished_ = true;
    return false;
  }
  mark_needed(*epoch);
  partial_ = partial_ || std::find(epoch->needed.begin(), epoch->needed.end(), false) != epoch->needed.end();
  epochs_.push_back(std::move(*epoch));
  finished_ = next_epoch_ == last_epoch_;
  ++next_epoch_;
  return true;
}

// nullopt: the order has no such epoch, or an empty one, behind which nothing can follow.
std::optional<Schedule::Epoch> Schedule::draw(std::uint64_t number, Place first) const {
  Result<std::vector<SampleIndex>> order = order_.epoch(number);
  if (!order && order.error().code != io::ErrorCode::kNotFound) {  // else nobody has told it yet
    io::log_warning("read-ahead ends before epoch {}: {}", number, order.error().message());
  }
  if (!order || order->empty()) return std::nullopt;
  const auto is_sample = [&](SampleIndex sample) { return sample < sample_count_; };
  HEADRACE_ASSERT(std::all_of(order->begin(), order->end(), is_sample));
  const WorkerSequence sequence(order->size(), workers_);
  if (workers_.workers <= 1) {
    return Epoch{number, first, std::move(*order), sequence, {}};
  }
  std::vector<SampleIndex> samples(order->size());
  for (std::uint64_t step = 0; step < samples.size(); ++step) samples[step] = (*order)[sequence.position_of(step)];
  return Epoch{number, first, std::move(samples), sequence, {}};
}

Place Schedule::seek(std::uint64_t epoch, std::uint64_t position, std::vector<Place>& opened) {
  opened.clear();
  while (!epochs_.empty() && epochs_.front().number != epoch) epochs_.pop_front();
  if (epochs_.empty()) next_epoch_ = epoch;
  Place first = 0;
  for (Epoch& each : epochs_) {
    each.first = first;
    first = each.end();
    mark_needed(each);
  }
  finished_ = next_epoch_ > last_epoch_ || next_epoch_ < epoch;
  if (epochs_.empty() && !draw_next()) return 0;

  const Epoch& target = epochs_.front();
  if (position >= target.samples.size()) return target.end();
  std::uint64_t step = target.sequence.group_begin(position);
  while (target.sequence.position_of(step) < position) ++step;
  for (std::uint64_t later = step; later < target.sequence.group_end(position); ++later) {
    if (target.sequence.position_of(later) < position) opened.push_back(later);
  }
  return step;
}

std::optional<Place> Schedule::locate(std::span<const SampleIndex> samples, std::uint64_t stretch) {
  if (epochs_.size() == 1) static_cast<void>(draw_next());
  std::map<SampleIndex, std::optional<Place>> last_seen;
  for (const SampleIndex sample : samples) last_seen[sample] = std::nullopt;
  std::optional<Place> best;
  std::uint64_t best_length = stretch;
  for (const Epoch& epoch : epochs_) {
    for (std::size_t i = 0; i < epoch.samples.size(); ++i) {
      if (std::find(samples.begin(), samples.end(), epoch.samples[i]) == samples.end()) continue;
      last_seen[epoch.samples[i]] = epoch.first + i;
      // The stretch that ends here begins with the sample seen longest ago.
      const auto oldest = std::min_element(last_seen.begin(), last_seen.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (!oldest->second) continue;
      const std::uint64_t length = epoch.first + i - *oldest->second;
      if (length < best_length) {
        best_length = length;
        best = *oldest->second;
      }
    }
  }
  return best;
}

void Schedule::mark_needed(Epoch& epoch) const {
  epoch.needed.assign(sample_count_, false);
  for (const SampleIndex sample : epoch.samples) epoch.needed[sample] = true;
}

void Schedule::draw_ahead_if_partial() {
  if (partial_ && epochs_.size() == 1) static_cast<void>(draw_next());
}

bool Schedule::is_needed(SampleIndex sample) const {
  return std::any_of(epochs_.begin(), epochs_.end(), [&](const Epoch& epoch) { return epoch.needed[sample]; });
}

void Schedule::note_passed(Place place, SampleIndex sample) {
  if (epochs_.empty() || place < epochs_.front().first) return;
  Epoch& epoch = epochs_.size() > 1 && place >= epochs_[1].first ? epochs_[1] : epochs_[0];
  epoch.needed[sample] = false;
}

bool Schedule::begins_with(std::uint64_t epoch, std::span<const SampleIndex> samples, std::uint64_t stretch) const {
  const Result<std::vector<SampleIndex>> beginning = order_.prefix(epoch, stretch);
  if (!beginning) return false;
  return std::all_of(samples.begin(), samples.end(), [&](SampleIndex sample) {
    return std::find(beginning->begin(), beginning->end(), sample) != beginning->end();
  });
}

std::optional<std::uint64_t> Schedule::find_beginning(std::span<const SampleIndex> samples,
                                                      std::uint64_t stretch) const {
  // A job starts at epoch 0, or a little later from a checkpoint. Sixteen cost 3 ms where an order has the prefix
  // property (1.3 million samples), 0.2 s where a whole permutation must be drawn.
  constexpr std::uint64_t kEpochsTried = 16;
  const std::uint64_t current = epochs_.empty() ? next_epoch_ : epochs_.front().number;
  const std::uint64_t previous = current - std::min<std::uint64_t>(current, 1);  // a job that never calls set_epoch
  if (begins_with(previous, samples, stretch)) return previous;
  for (std::uint64_t epoch = 0; epoch < kEpochsTried && epoch <= last_epoch_; ++epoch) {
    if (begins_with(epoch, samples, stretch)) return epoch;
  }
  return std::nullopt;
}

}  // namespace headrace::cache
