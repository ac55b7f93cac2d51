// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/endpoint.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "headrace/cache/source/object/uri.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;

constexpr std::string_view kGoogle = "https://storage.googleapis.com";

// Scheme, host with port, and path of a URL; an empty host: it is none.
struct UrlParts {
  std::string_view scheme;
  std::string_view host;
  std::string_view path;  // with its '/', without one at the end
};

UrlParts parts_of(std::string_view url) {
  UrlParts parts;
  for (const std::string_view scheme : {std::string_view("https://"), std::string_view("http://")}) {
    if (url.starts_with(scheme)) parts.scheme = scheme.substr(0, scheme.size() - 3);
  }
  if (parts.scheme.empty()) return parts;
  url.remove_prefix(parts.scheme.size() + 3);
  const std::size_t slash = std::min(url.find('/'), url.size());
  parts.host = url.substr(0, slash);
  parts.path = url.substr(slash);
  while (parts.path.ends_with('/')) parts.path.remove_suffix(1);
  // Names, addresses and ports; no user, no query, nothing that ends a line of HTTP.
  const bool good = std::all_of(parts.host.begin(), parts.host.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view(".-:[]_").find(c) != std::string::npos;
  });
  if (!good) parts.host = {};
  // libcurl leaves out the scheme's own port in Host, and the signature has to say the same.
  const std::string_view port = parts.scheme == "https" ? ":443" : ":80";
  if (parts.host.ends_with(port)) parts.host.remove_suffix(port.size());
  return parts;
}

bool may_be_bucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
         });
}

// Whether it is a label of a host's name (RFC 1035). A certificate's *.s3.amazonaws.com covers no name with a dot, and
// host names have no capitals.
bool fits_into_host(std::string_view bucket) {
  return bucket.size() <= 63 && !bucket.starts_with('-') && !bucket.ends_with('-') &&
         std::none_of(bucket.begin(), bucket.end(),
                      [](char c) { return c == '.' || c == '_' || (c >= 'A' && c <= 'Z'); });
}

// Amazon's own, also where its URL is given: that of a region, of FIPS, of IPv6, of the accelerated ones.
bool is_amazons(std::string_view host) {
  return host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
}

}  // namespace

bool is_object_url(std::string_view source) {
  return source.starts_with("s3://") || source.starts_with("gs://");
}

io::Result<ObjectStoreOptions> parse_object_url(std::string_view url) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}': {}", io::printable(url), why));
  };
  if (!is_object_url(url)) return refuse("not a bucket; write s3://BUCKET/PREFIX or gs://BUCKET/PREFIX");
  ObjectStoreOptions options;
  if (url.starts_with("gs://")) {
    options.endpoint = kGoogle;
    options.region = "auto";  // what its S3 face is signed with
  }
  url.remove_prefix(5);
  const std::size_t slash = std::min(url.find('/'), url.size());
  options.bucket = url.substr(0, slash);
  options.prefix = url.substr(std::min(slash + 1, url.size()));
  if (!may_be_bucket(options.bucket)) {
    return refuse("a bucket's name has 3 to 255 letters, digits, dots, hyphens and underscores");
  }
  if (!options.prefix.empty() && !options.prefix.ends_with('/')) options.prefix += '/';
  if (options.prefix.find('\0') != std::string::npos || options.prefix.size() > 1024) {
    return refuse("a prefix has at most 1024 bytes, none of them NUL");
  }
  return options;
}

std::string host_of(std::string_view url) {
  return std::string(parts_of(url).host);
}

std::string place_of(std::string_view url) {
  const UrlParts parts = parts_of(url);
  return parts.host.empty() ? "" : fmt::format("{}://{}", parts.scheme, parts.host);
}

std::string name_of(const ObjectStoreOptions& options) {
  const std::string host = options.endpoint.empty() ? "" : host_of(options.endpoint) + "/";
  return "s3://" + host + options.bucket + "/" + options.prefix;
}

io::Result<Endpoint> make_endpoint(const ObjectStoreOptions& options) {
  if (!may_be_bucket(options.bucket)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{}' is no name of a bucket", io::printable(options.bucket)));
  }
  Endpoint endpoint;
  std::string path;
  if (options.endpoint.empty()) {
    const std::string& region = options.region;
    const bool is_china = region.starts_with("cn-");
    endpoint.host = fmt::format("s3.{}.amazonaws.com{}", region, is_china ? ".cn" : "");
  } else {
    const UrlParts parts = parts_of(options.endpoint);
    if (parts.host.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("endpoint '{}': write http://HOST[:PORT] or https://HOST[:PORT]",
                                    io::printable(options.endpoint)));
    }
    endpoint.scheme = parts.scheme;
    endpoint.host = parts.host;
    path = encode_path(parts.path);
  }
  const bool in_path = options.path_style.value_or(!is_amazons(endpoint.host) || !fits_into_host(options.bucket));
  if (in_path) {
    endpoint.bucket_path = path + "/" + encode_path(options.bucket) + "/";
  } else {
    endpoint.host = options.bucket + "." + endpoint.host;
    endpoint.bucket_path = path + "/";
  }
  return endpoint;
}

}  // namespace headrace::cache
