// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/records.h"

#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "headrace/cache/order/recorded_order.h"
#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSpecs = 8;  // jobs that take turns on one data set

[[nodiscard]] std::vector<std::string> read_specs(const fs::path& file) {
  std::vector<std::string> specs;
  std::ifstream stream(file);
  for (std::string spec; specs.size() < kSpecs && std::getline(stream, spec);) specs.push_back(spec);
  return specs;
}

// A run that goes on has its epochs in front of it; a family without a short form is tried for a few only.
[[nodiscard]] std::uint64_t epochs_to_try(const std::string& spec) {
  return spec.starts_with("torch-") ? 300 : 3;
}

}  // namespace

Records::Records(const fs::path& root, const SampleRange& range)
    : folder_(root.empty() ? fs::path() : root / fmt::format("{}-{}", range.first, range.count)) {}

Records::Candidates Records::candidates() const {
  Candidates found;
  io::MutexLock lock(mutex_);
  for (const std::string& spec : specs()) found.specs.push_back({spec, 0, epochs_to_try(spec)});
  std::error_code ignored;
  if (!folder_.empty() && epochs_kept_ == 0 && fs::exists(folder_ / "0.epoch", ignored)) {
    found.epochs.push_back({"recorded:" + folder_.string(), 0, kRecordedEpochs});
  }
  return found;
}

std::vector<std::string> Records::specs() const {
  return folder_.empty() || cannot_write_ ? specs_ : read_specs(folder_ / "specs");
}

void Records::keep_spec(const std::string& spec) {
  if (spec.starts_with("recorded:")) return;
  io::MutexLock lock(mutex_);
  specs_ = specs();
  if (!specs_.empty() && specs_.front() == spec) return;
  std::erase(specs_, spec);
  specs_.insert(specs_.begin(), spec);
  if (specs_.size() > kSpecs) specs_.pop_back();
  if (folder_.empty()) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  std::ofstream stream(folder_ / "specs", std::ios::trunc);
  for (const std::string& line : specs_) stream << line << '\n';
  if (stream.flush()) return;
  cannot_write_ = true;
  io::log_warning("order: cannot write {}", (folder_ / "specs").string());
}

void Records::keep_epoch(const std::vector<SampleIndex>& samples) {
  io::MutexLock lock(mutex_);
  if (folder_.empty() || epochs_kept_ == kRecordedEpochs) return;
  if (epochs_kept_ == 0) start_anew();
  if (io::Status kept = write_recorded_epoch(folder_, epochs_kept_, samples); !kept) {
    io::log_warning("order: {}", kept.error().message());
    epochs_kept_ = kRecordedEpochs;  // do not try again with every epoch
    return;
  }
  ++epochs_kept_;
}

void Records::start_anew() {
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  for (std::uint64_t epoch = 0; epoch < kRecordedEpochs; ++epoch) {
    fs::remove(folder_ / fmt::format("{}.epoch", epoch), ignored);
  }
}

}  // namespace headrace::cache
