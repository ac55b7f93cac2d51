// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_settings.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include <fmt/format.h>

#include "headrace/cache/source/object/endpoint.h"
#include "headrace/cache/source/object/key_sources.h"
#include "headrace/io/environment.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

void fill(std::string& setting, std::initializer_list<std::string> candidates) {
  for (const std::string& candidate : candidates) {
    if (setting.empty()) setting = candidate;
  }
}

}  // namespace

bool may_be_region(std::string_view region) {
  return !region.empty() && region.size() <= 64 && std::all_of(region.begin(), region.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  });
}

io::Result<ObjectStoreOptions> complete_options(ObjectStoreOptions options) {
  if (!options.environment) options.environment = io::environment;
  const Environment& env = options.environment;
  HEADRACE_TRY(profile, Profile::read(env, profile_name(env, options.profile)));
  fill(options.endpoint,
       {value_of(env, "AWS_ENDPOINT_URL_S3"), value_of(env, "AWS_ENDPOINT_URL"), profile.value("endpoint_url")});
  fill(options.region, {value_of(env, "AWS_REGION"), value_of(env, "AWS_DEFAULT_REGION"), profile.value("region"),
                        std::string(kFirstRegion)});
  fill(options.ca_file, {value_of(env, "AWS_CA_BUNDLE"), profile.value("ca_bundle")});
  // As GDAL and what is built on it say it.
  options.requester_pays = options.requester_pays || value_of(env, "AWS_REQUEST_PAYER") == "requester";
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!options.prefix.empty() && !options.prefix.ends_with('/')) options.prefix += '/';
  if (!may_be_region(options.region)) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("'{}' is no name of a region", io::printable(options.region)));
  }
  return options;
}

}  // namespace headrace::cache
