// SPDX-License-Identifier: Apache-2.0
// From the name of a bucket and how it is reached to what its client is opened with.
//
//   HEADRACE_TRY(options, bucket_options("s3://bucket/train", {.region = "eu-west-1"}));
//
// Thread-safety: pure function.
#pragma once

#include <string_view>

#include "headrace/cache/object_store.h"

namespace headrace::cache {

// `options` with the bucket and the prefix of the URL. Errors: as parse_object_url().
[[nodiscard]] inline io::Result<ObjectStoreOptions> bucket_options(std::string_view url, ObjectStoreOptions options) {
  HEADRACE_TRY(named, parse_object_url(url));
  options.bucket = named.bucket;
  options.prefix = named.prefix;
  if (options.endpoint.empty()) options.endpoint = named.endpoint;
  return options;
}

}  // namespace headrace::cache
