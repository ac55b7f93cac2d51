// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/torch_parameters.h"

#include <charconv>
#include <string>

namespace headrace::cache {

TorchVersion read_torch_version(Parameters& parameters) {
  const std::optional<std::string> given = parameters.text("torch");
  if (!given) return {};
  TorchVersion version;
  const char* end = given->data() + given->size();
  const auto major = std::from_chars(given->data(), end, version.major);
  if (major.ec == std::errc{} && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
    if (minor.ec == std::errc{} && (minor.ptr == end || *minor.ptr == '.')) return version;
  }
  parameters.fail("torch=" + *given + " is not allowed: a release as MAJOR.MINOR");
  return {};
}

io::Status skip(Mt19937& generator, std::uint64_t epoch, std::uint64_t outputs_per_epoch, std::uint64_t within) {
  // 2^37 outputs are about two minutes; 1000 epochs of 10 M samples need a seventh of it.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 37;
  if (within > kMost || (outputs_per_epoch != 0 && epoch > (kMost - within) / outputs_per_epoch)) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "epoch " + std::to_string(epoch) + " is too far into the generator's stream");
  }
  generator.discard(epoch * outputs_per_epoch + within);
  return {};
}

}  // namespace headrace::cache
