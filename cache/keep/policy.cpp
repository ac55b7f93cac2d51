// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/policy.h"

#include <algorithm>

namespace headrace::cache {

std::string_view name_of(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kLru:
      return "lru";
    case PolicyKind::kS3Fifo:
      return "s3-fifo";
    case PolicyKind::kNeverEvict:
      return "never-evict";
    case PolicyKind::kMin:
      break;
  }
  return "min";
}

std::optional<PolicyKind> policy_from_name(std::string_view name) {
  const auto* found = std::find_if(std::begin(kAllPolicies), std::end(kAllPolicies),
                                   [&](PolicyKind kind) { return name_of(kind) == name; });
  if (found == std::end(kAllPolicies)) return std::nullopt;
  return *found;
}

std::unique_ptr<Policy> make_policy(PolicyKind kind, const PolicyOptions& options) {
  switch (kind) {
    case PolicyKind::kLru:
      return make_lru(options);
    case PolicyKind::kS3Fifo:
      return make_s3_fifo(options);
    case PolicyKind::kNeverEvict:
      return make_never_evict(options);
    case PolicyKind::kMin:
      break;
  }
  return make_min(options);
}

}  // namespace headrace::cache
