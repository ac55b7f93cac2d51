// SPDX-License-Identifier: Apache-2.0
// Where access keys come from. The sources are asked in this order, and the first one that is set up counts:
//
//   1. the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. a profile of ~/.aws: keys, credential_process, role_arn with source_profile or credential_source, or with
//      web_identity_token_file
//   3. a web identity (Kubernetes): AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN
//   4. a container's keys: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
//   5. the machine's own role, from its metadata service (IMDSv2)
//
// A source that is set up and gives nothing is an error: the next one may be somebody else's keys.
//
// Thread-safety: any thread; find_keys() blocks.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "headrace/cache/object_store.h"
#include "headrace/cache/source/object/profile_file.h"
#include "headrace/cache/source/object/stop_event.h"
#include "headrace/io/result.h"

namespace headrace::cache {

struct FoundKeys {
  AccessKeys keys;
  std::optional<std::chrono::system_clock::time_point> expires;
  std::string source;  // for people: "environment", "profile train", "machine role reader"
};

struct KeySources {
  Environment environment;
  std::string profile;  // empty: AWS_PROFILE, else "default"
  std::string region;   // of the token service
  std::string ca_file;
  const StopEvent* stop = nullptr;  // ends the search soon, whatever hangs; its result is of no use then
};

// The name of the profile in use.
[[nodiscard]] std::string profile_name(const Environment& environment, const std::string& wanted);

// nullopt: no source is set up.
// Errors: kInvalidArgument (a profile that is not there or not understood), kPermission (a source gave none).
[[nodiscard]] io::Result<std::optional<FoundKeys>> find_keys(const KeySources& sources);

}  // namespace headrace::cache
