// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/torch_parameters.h"

#include <charconv>

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

}  // namespace headrace::cache
