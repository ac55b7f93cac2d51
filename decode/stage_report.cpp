// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/stage_report.h"

#include <algorithm>

#include <fmt/format.h>

namespace headrace::decode {
namespace {

double seconds(const std::atomic<std::uint64_t>& ns) {
  return 1e-9 * static_cast<double>(ns.load(std::memory_order_relaxed));
}

double ratio(double part, double all) {
  return all > 0 ? part / all : 0;
}

std::string_view advice_for(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kSource:
      return "the decoders wait for the source: a larger or faster tier, or a longer look-ahead, would help";
    case Bottleneck::kCache:
      return "the decoders wait for a tier: a faster tier or more RAM would help";
    case Bottleneck::kDecode:
      return "the decoder threads are busy: more cores, smaller images or DCT scaling would help";
    case Bottleneck::kConsumer:
      return "finished samples wait for the consumer: nothing to gain before it";
  }
  return "";
}

// What there was of each; nothing for images that are decoded whole.
std::string describe(const CropReport& crops) {
  constexpr std::string_view kWays[kCropWays] = {"with an index",
                                                 "made or continued one",
                                                 "without, no room for it",
                                                 "not to be indexed (progressive, arithmetic, several scans)",
                                                 "damaged",
                                                 "decoded to the end to find damage",
                                                 "left to an unknown libjpeg"};
  std::string text;
  for (std::size_t i = 0; i < kCropWays; ++i) {
    if (crops.crops[i] > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", crops.crops[i], kWays[i]);
  }
  if (text.empty()) return text;
  constexpr double kMiB = 1 << 20;
  text = fmt::format("  JPEG crops: {}; {:.1f} MiB for {} files", text, static_cast<double>(crops.bytes) / kMiB,
                     crops.files);
  if (crops.folder_bytes > 0)
    text += fmt::format(", {:.1f} MiB on disk", static_cast<double>(crops.folder_bytes) / kMiB);
  return text + "\n";
}

}  // namespace

void StageCounters::count_sample(std::size_t encoded_bytes, cache::TierKind served_from, std::size_t queue_depth) {
  samples_.fetch_add(1, std::memory_order_relaxed);
  encoded_bytes_.fetch_add(encoded_bytes, std::memory_order_relaxed);
  depth_sum_.fetch_add(queue_depth, std::memory_order_relaxed);
  if (served_from == cache::TierKind::kSource) from_source_.fetch_add(1, std::memory_order_relaxed);
}

StageReport StageCounters::report() const {
  StageReport report;
  report.elapsed_seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  report.samples = samples_.load(std::memory_order_relaxed);
  report.encoded_bytes = encoded_bytes_.load(std::memory_order_relaxed);
  report.bad_samples = bad_samples.load(std::memory_order_relaxed);
  const auto samples = static_cast<double>(report.samples);
  report.source_fraction = ratio(static_cast<double>(from_source_.load(std::memory_order_relaxed)), samples);
  report.queue_depth = ratio(static_cast<double>(depth_sum_.load(std::memory_order_relaxed)), samples);
  report.read_seconds = seconds(read_ns);
  report.held_back_seconds = seconds(held_back_ns);
  report.decode_seconds = seconds(decode_ns);
  report.transform_seconds = seconds(transform_ns);
  report.idle_seconds = seconds(idle_ns);
  report.deliver_seconds = seconds(deliver_ns);
  report.consume_seconds = std::max(0.0, report.elapsed_seconds - report.deliver_seconds);
  return report;
}

// A consumer that hardly waits is the bottleneck (a tenth leaves room for the start); else the decoders, if the feeder
// waits for them rather than for bytes; else whoever those bytes come from. The decoders' idle time does not decide: on
// a busy machine they are not on a processor although there is work.
Bottleneck bottleneck_of(const StageReport& report) {
  if (ratio(report.deliver_seconds, report.elapsed_seconds) < 0.1) return Bottleneck::kConsumer;
  if (report.held_back_seconds > report.read_seconds) return Bottleneck::kDecode;
  return report.source_fraction > 0.5 ? Bottleneck::kSource : Bottleneck::kCache;
}

std::string_view name_of(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kSource:
      return "source-bound";
    case Bottleneck::kCache:
      return "cache-bound";
    case Bottleneck::kDecode:
      return "decode-bound";
    case Bottleneck::kConsumer:
      return "consumer-bound";
  }
  return "";
}

std::string format(const StageReport& report) {
  const double thread_seconds = report.elapsed_seconds * report.threads;
  const Bottleneck bottleneck = bottleneck_of(report);
  constexpr double kMebibyte = 1 << 20;
  std::string text =
      fmt::format("{} samples ({} bad), {:.1f} MiB in {:.2f} s: {:.1f} samples/s\n", report.samples, report.bad_samples,
                  static_cast<double>(report.encoded_bytes) / kMebibyte, report.elapsed_seconds,
                  ratio(static_cast<double>(report.samples), report.elapsed_seconds));
  const auto add_line = [&](std::string_view stage, double value, double all, std::string_view meaning) {
    text += fmt::format("  {:<10} {:8.2f} s {:4.0f} %  {}\n", stage, value, 100 * ratio(value, all), meaning);
  };
  add_line("read", report.read_seconds, report.elapsed_seconds, "waiting for bytes");
  add_line("held back", report.held_back_seconds, report.elapsed_seconds, "waiting for a free slot");
  add_line("decode", report.decode_seconds, thread_seconds, fmt::format("on {} threads", report.threads));
  add_line("transform", report.transform_seconds, thread_seconds, "on the same threads");
  add_line("idle", report.idle_seconds, thread_seconds,
           fmt::format("of these threads; queue {:.1f} of {} deep", report.queue_depth, report.queue_capacity));
  add_line("deliver", report.deliver_seconds, report.elapsed_seconds, "consumer waiting");
  add_line("consume", report.consume_seconds, report.elapsed_seconds, "consumer working");
  text += describe(report.crops);
  return text + fmt::format("{}: {}\n", name_of(bottleneck), advice_for(bottleneck));
}

}  // namespace headrace::decode
