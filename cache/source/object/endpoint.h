// SPDX-License-Identifier: Apache-2.0
// Where requests for a bucket go: from options and region to scheme, host and the path before the key. At Amazon the
// bucket is a part of the host's name ("virtual-host style"), if it is a label that may stand there; elsewhere it is
// the beginning of the path, which every store understands.
//
//   HEADRACE_TRY(endpoint, make_endpoint(options));
//   endpoint.url("a%20b.jpg", "")   // "https://bucket.s3.eu-west-1.amazonaws.com/train/a%20b.jpg"
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "headrace/cache/object_store.h"
#include "headrace/io/result.h"

namespace headrace::cache {

inline constexpr std::string_view kFirstRegion = "us-east-1";  // Amazon answers there, and says where a bucket lies

struct Endpoint {
  std::string scheme = "https";
  std::string host;         // with the port, as the header Host has it
  std::string bucket_path;  // encoded, ends in '/': "/" or "/bucket/"

  [[nodiscard]] std::string url(std::string_view path, std::string_view query) const {
    std::string text = scheme + "://" + host;
    text += path;
    if (!query.empty()) text.append(1, '?').append(query);
    return text;
  }
};

// `options` has its endpoint and region already. Errors: kInvalidArgument (no URL, no bucket name).
[[nodiscard]] io::Result<Endpoint> make_endpoint(const ObjectStoreOptions& options);
// The host of an endpoint's URL, as the header Host has it; empty: it is no http(s) URL.
[[nodiscard]] std::string host_of(std::string_view url);
// Scheme and host, "https://minio.example:9000": the rest of a URL may hold secrets. Empty where host_of() is.
[[nodiscard]] std::string place_of(std::string_view url);

}  // namespace headrace::cache
