// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/warm/index_warm.h"

#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/reader.h"
#include "headrace/cli/show/figures.h"
#include "headrace/decode/index_maker.h"

namespace headrace::cli {
namespace {

using decode::CropWay;

// The samples of a warm, as the one epoch that is read.
class WantedOrder final : public cache::Order {
 public:
  explicit WantedOrder(std::vector<cache::SampleIndex> samples) : samples_(std::move(samples)) {}
  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override { return epoch == 0 ? samples_.size() : 0; }
  [[nodiscard]] io::Result<std::vector<cache::SampleIndex>> epoch(std::uint64_t epoch) const override {
    if (epoch == 0) return samples_;
    return io::make_error(io::ErrorCode::kInvalidArgument, "a warm reads one epoch");
  }

 private:
  const std::string spec_ = "wanted";
  const std::vector<cache::SampleIndex> samples_;
};

WantedOrder order_of(const std::vector<cache::EntryId>& entries, const cache::Catalog& catalog, Amount& total) {
  std::vector<cache::SampleIndex> samples;
  for (const cache::EntryId entry : entries) {
    const auto sample = catalog.sample_of(entry);
    if (!sample) continue;
    samples.push_back(*sample);
    ++total.samples;
    total.bytes += catalog.size_bytes(entry);
  }
  return WantedOrder(std::move(samples));
}

void count(const decode::IndexedSample& sample, std::uint64_t bytes, IndexState& state) {
  ++state.done.samples;
  state.done.bytes += bytes;
  if (sample.status) {
    ++state.ways[static_cast<std::size_t>(sample.way)];
  } else if (sample.status.error().code == io::ErrorCode::kUnsupported) {
    ++state.ways[static_cast<std::size_t>(CropWay::kUnsuited)];  // no image at all, for instance
  } else if (state.failed++ == 0) {
    state.first_failure = sample.status.error().message();
  }
}

}  // namespace

io::Result<IndexState> make_indexes(cache::Store& store, const std::vector<cache::EntryId>& entries, StopSignal& stop) {
  IndexState state;
  const cache::Catalog& catalog = store.catalog();
  const WantedOrder order = order_of(entries, catalog, state.total);
  HEADRACE_TRY(folder, decode::own_crop_index_folder());
  HEADRACE_TRY(reader, cache::Reader::open(store, order, {}));
  HEADRACE_TRY(maker, decode::IndexMaker::start(decode::read_from(*reader, catalog), {.folder = folder}));
  Progress progress(stderr, "indexing", state.total);
  const OnStop on_stop(stop, [&] { maker->stop(); });
  while (const decode::IndexedSample* sample = maker->next()) {
    count(*sample, catalog.size_bytes(catalog.sample_entry(sample->index)), state);
    progress.update(state.done);
  }
  progress.finish(state.done);
  state.stopped = on_stop.stopped();
  return state;
}

nlohmann::json to_json(const IndexState& state, double seconds) {
  return {{"indexed", state.count(CropWay::kIndexed)},
          {"made", state.count(CropWay::kMade)},
          {"unsuited", state.count(CropWay::kUnsuited)},
          {"damaged", state.count(CropWay::kDamaged)},
          {"no_room", state.count(CropWay::kNoRoom)},
          {"wanted_samples", state.total.samples},
          {"failed", state.failed},
          {"seconds", seconds}};
}

std::string summarise(const IndexState& state, double seconds) {
  const std::uint64_t there = state.count(CropWay::kIndexed);
  std::string line =
      fmt::format("indexes of {} JPEGs in {}", there + state.count(CropWay::kMade), format_duration(seconds));
  if (there > 0) line += fmt::format(", {} of them there already", there);
  const auto add = [&line](std::uint64_t number, const char* text) {
    if (number > 0) line += fmt::format("; {} {}", number, text);
  };
  add(state.count(CropWay::kUnsuited), "cannot have one (progressive, or no JPEG)");
  add(state.count(CropWay::kDamaged), "are damaged, and decoded whole");
  add(state.count(CropWay::kNoRoom), "found no room");
  add(state.total.samples - state.done.samples, "are left");
  if (state.failed > 0) line += fmt::format("; {} failed, first: {}", state.failed, state.first_failure);
  return line;
}

io::Status check_outcome(const IndexState& state) {
  if (state.stopped) return io::make_error(io::ErrorCode::kCancelled, "stopped by a signal; call again to go on");
  if (state.failed == 0) return {};
  return io::make_error(io::ErrorCode::kSystem, fmt::format("{} samples failed", state.failed));
}

}  // namespace headrace::cli
