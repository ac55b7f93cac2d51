// SPDX-License-Identifier: Apache-2.0
// One profile of ~/.aws/credentials and ~/.aws/config.
//
//   HEADRACE_TRY(profile, Profile::read(environment, "train"));
//   if (profile.exists()) use(profile.value("region"));
//
// Where both files have a value, that of `credentials` holds, as everywhere. Files that cannot be opened have nothing.
//
// Thread-safety: a plain value. The text of the files is overwritten in the end.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "headrace/io/result.h"
#include "headrace/io/secret.h"

namespace headrace::cache {

using Environment = std::function<const char*(const char* name)>;

// Empty if it is not there.
[[nodiscard]] std::string value_of(const Environment& environment, const char* name);

class Profile {
 public:
  // Errors: kInvalidArgument (a file of more than 1 MiB is none of these).
  [[nodiscard]] static io::Result<Profile> read(const Environment& environment, const std::string& name);

  [[nodiscard]] bool exists() const { return exists_; }
  [[nodiscard]] std::string value(const std::string& name) const;  // empty: it is not there
  [[nodiscard]] io::Secret secret(const std::string& name) const;

 private:
  void add(std::string_view text, std::string_view section);

  bool exists_ = false;
  std::map<std::string, io::Secret> values_;
};

}  // namespace headrace::cache
