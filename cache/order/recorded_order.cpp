// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/recorded_order.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <xxhash.h>

#include "headrace/cache/order/families.h"

namespace headrace::cache {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

struct Header {
  char magic[8] = {'h', 'r', 'e', 'p', 'o', 'c', 'h', '1'};
  std::uint64_t count = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 24);

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[nodiscard]] fs::path file_of(const fs::path& folder, std::uint64_t epoch) {
  return folder / (std::to_string(epoch) + ".epoch");
}

class RecordedOrder final : public Order {
 public:
  RecordedOrder(std::string spec, fs::path folder, std::uint64_t sample_count, std::vector<std::uint64_t> lengths)
      : spec_(std::move(spec)), folder_(std::move(folder)), sample_count_(sample_count), lengths_(std::move(lengths)) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override {
    return epoch < lengths_.size() ? lengths_[epoch] : 0;
  }
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    if (epoch < lengths_.size()) return read_recorded_epoch(folder_, epoch, sample_count_);
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "epoch " + std::to_string(epoch) + " is not recorded in " + folder_.string());
  }

 private:
  const std::string spec_;
  const fs::path folder_;
  const std::uint64_t sample_count_;
  const std::vector<std::uint64_t> lengths_;
};

}  // namespace

io::Status write_recorded_epoch(const fs::path& folder, std::uint64_t epoch, std::span<const SampleIndex> samples) {
  const fs::path file = file_of(folder, epoch);
  const fs::path partial = file.string() + ".new";
  Header header;
  header.count = samples.size();
  header.checksum = XXH3_64bits(samples.data(), samples.size_bytes());
  {
    const File stream(std::fopen(partial.c_str(), "wbe"), std::fclose);
    if (stream == nullptr) return io::system_error(errno, "write " + partial.string());
    if (std::fwrite(&header, sizeof(header), 1, stream.get()) != 1 ||
        std::fwrite(samples.data(), sizeof(SampleIndex), samples.size(), stream.get()) != samples.size() ||
        std::fflush(stream.get()) != 0) {
      return io::system_error(errno, "write " + partial.string());
    }
  }
  std::error_code failed;
  fs::rename(partial, file, failed);
  if (failed) return io::system_error(failed.value(), "rename " + partial.string());
  return {};
}

Result<std::vector<SampleIndex>> read_recorded_epoch(const fs::path& folder, std::uint64_t epoch,
                                                     std::uint64_t sample_count) {
  const fs::path file = file_of(folder, epoch);
  const auto corrupt = [&] { return io::make_error(io::ErrorCode::kCorrupt, "recorded order " + file.string()); };
  const File stream(std::fopen(file.c_str(), "rbe"), std::fclose);
  if (stream == nullptr) return io::system_error(errno, "open " + file.string());
  Header header;
  const Header expected;
  std::error_code failed;
  const std::uint64_t bytes = fs::file_size(file, failed);
  if (failed || std::fread(&header, sizeof(header), 1, stream.get()) != 1 ||
      std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0 ||
      header.count != (bytes - sizeof(header)) / sizeof(SampleIndex)) {
    return corrupt();
  }
  std::vector<SampleIndex> samples(header.count);
  if (std::fread(samples.data(), sizeof(SampleIndex), samples.size(), stream.get()) != samples.size() ||
      XXH3_64bits(samples.data(), samples.size() * sizeof(SampleIndex)) != header.checksum ||
      std::ranges::any_of(samples, [&](SampleIndex sample) { return sample >= sample_count; })) {
    return corrupt();
  }
  return samples;
}

OrderResult make_recorded(Parameters& parameters, const OrderInput& input) {
  const fs::path folder(parameters.whole());
  std::vector<std::uint64_t> lengths;
  while (lengths.size() < kRecordedEpochs) {
    const auto samples = read_recorded_epoch(folder, lengths.size(), input.sample_count);
    if (samples) {
      lengths.push_back(samples->size());
    } else if (lengths.empty()) {
      return tl::unexpected(samples.error());
    } else {
      break;
    }
  }
  return std::make_unique<RecordedOrder>(parameters.spec(), folder, input.sample_count, std::move(lengths));
}

}  // namespace headrace::cache
