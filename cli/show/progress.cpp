// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/progress.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/terminal.h"

namespace headrace::cli {
namespace {

using std::chrono::steady_clock;

// Ten pictures a second look fluent. A log file needs no more than a line every few seconds.
constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::milliseconds kLineInterval{5000};
constexpr std::size_t kPlainColumns = 100;
constexpr std::size_t kBarColumnsMin = 6;
constexpr std::size_t kBarColumnsMax = 30;

double fraction_done(Amount done, Amount total) {
  if (total.bytes > 0) return std::min(1.0, static_cast<double>(done.bytes) / static_cast<double>(total.bytes));
  if (total.samples > 0) return std::min(1.0, static_cast<double>(done.samples) / static_cast<double>(total.samples));
  return 1.0;
}

std::string format_bar(double fraction, std::size_t columns) {
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(columns));
  return "[" + std::string(filled, '#') + std::string(columns - filled, '.') + "]";
}

}  // namespace

std::string format_progress(std::string_view label, Amount done, Amount total, double elapsed_seconds,
                            std::size_t columns) {
  const double fraction = fraction_done(done, total);
  const double seconds = std::max(elapsed_seconds, 1e-3);
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done.bytes) / seconds);
  std::string time;
  if (fraction >= 1.0) {
    time = "in " + format_duration(elapsed_seconds);
  } else if (fraction > 0) {
    time = "ETA " + format_duration(elapsed_seconds / fraction * (1 - fraction));
  }
  std::string figures = fmt::format("{:3.0f}% ", fraction * 100);
  if (total.samples > 0) figures += format_count(done.samples) + "/" + format_count(total.samples) + " ";
  figures += fmt::format("{} {}/s {}", format_size(done.bytes), format_size(rate), time);
  const std::size_t fixed = label.size() + figures.size() + 4;  // two spaces, two brackets
  std::string line = std::string(label) + " ";
  if (fixed + kBarColumnsMin <= columns) {
    line += format_bar(fraction, std::min(kBarColumnsMax, columns - fixed)) + " ";
  }
  line += figures;
  if (line.size() > columns) line.resize(columns);
  return line;
}

ProgressLine::ProgressLine(std::FILE* stream)
    : stream_(stream),
      terminal_(terminal_columns(stream) > 0),
      next_draw_(steady_clock::now() + (terminal_ ? kTerminalInterval : kLineInterval)) {}

bool ProgressLine::is_due() {
  const auto now = steady_clock::now();
  if (now < next_draw_) return false;
  next_draw_ = now + (terminal_ ? kTerminalInterval : kLineInterval);
  return true;
}

std::size_t ProgressLine::columns() const {
  return terminal_ ? std::max<std::size_t>(terminal_columns(stream_), 2) - 1 : kPlainColumns;
}

// "\r" and "erase to the end of the line" keep it clean when the user has made the terminal narrower or wider.
void ProgressLine::draw(std::string line) {
  if (terminal_) line.resize(std::min(line.size(), columns()));
  fmt::print(stream_, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
  std::fflush(stream_);
  is_drawn_ = true;
}

void ProgressLine::end() {
  if (terminal_) std::fputc('\n', stream_);
  std::fflush(stream_);
}

void ProgressLine::erase() {
  if (!terminal_ || !is_drawn_) return;
  fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
}

Progress::Progress(std::FILE* stream, std::string label, Amount total)
    : line_(stream), label_(std::move(label)), total_(total), started_(steady_clock::now()) {}

double Progress::elapsed_seconds() const {
  return seconds_since(started_);
}

void Progress::update(Amount done) {
  if (line_.is_due()) draw(done);
}

void Progress::finish(Amount done) {
  draw(done);
  line_.end();
}

void Progress::draw(Amount done) {
  line_.draw(format_progress(label_, done, total_, elapsed_seconds(), line_.columns()));
}

CountProgress::CountProgress(std::FILE* stream, std::string label, std::string unit)
    : line_(stream), label_(std::move(label)), unit_(std::move(unit)) {}

CountProgress::~CountProgress() {
  line_.erase();
}

void CountProgress::update(std::uint64_t count) {
  if (line_.is_due()) line_.draw(fmt::format("{}: {} {}", label_, format_count(count), unit_));
}

}  // namespace headrace::cli
