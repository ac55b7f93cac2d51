// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/profile_file.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

// Empty: it is not there.
io::Result<std::string> read_text(const std::string& path) {
  const io::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file.valid()) return text;
  text.resize(kFileBytesMax + 1);  // at once: a string that grows leaves copies behind
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kFileBytesMax) {
    io::wipe(text);
    return io::make_error(io::ErrorCode::kInvalidArgument, path + ": too large for a file of profiles");
  }
  text.resize(size);
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::string value_of(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

io::Result<Profile> Profile::read(const Environment& environment, const std::string& name) {
  const std::string home = value_of(environment, "HOME") + "/.aws/";
  std::string config = value_of(environment, "AWS_CONFIG_FILE");
  std::string credentials = value_of(environment, "AWS_SHARED_CREDENTIALS_FILE");
  if (config.empty()) config = home + "config";
  if (credentials.empty()) credentials = home + "credentials";
  Profile profile;
  HEADRACE_TRY(first, read_text(credentials));
  profile.add(first, name);
  io::wipe(first);
  HEADRACE_TRY(second, read_text(config));
  profile.add(second, name == "default" ? name : "profile " + name);
  io::wipe(second);
  return profile;
}

// Lines of [section], name = value, and comments. Indented lines belong to the value before ("s3 =") and are passed
// over: nothing that is needed here stands in one.
void Profile::add(std::string_view text, std::string_view section) {
  bool inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    if (line.starts_with('[')) {
      inside = trimmed(line.substr(1, std::min(line.find(']'), line.size()) - 1)) == section;
      exists_ = exists_ || inside;
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!inside || equals == std::string_view::npos || line.starts_with(' ') || line.starts_with('\t')) continue;
    values_.emplace(std::string(trimmed(line.substr(0, equals))), io::Secret(trimmed(line.substr(equals + 1))));
  }
}

std::string Profile::value(const std::string& name) const {
  return std::string(secret(name).bytes());
}

io::Secret Profile::secret(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? io::Secret() : found->second;
}

}  // namespace headrace::cache
