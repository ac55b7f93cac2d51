// SPDX-License-Identifier: Apache-2.0
// Makes socket addresses of paths.
#pragma once

#include <cstring>
#include <filesystem>

#include <sys/socket.h>
#include <sys/un.h>

#include "headrace/io/result.h"

namespace headrace::cli {

// Errors: kInvalidArgument when the path does not fit into a socket address.
[[nodiscard]] inline io::Result<sockaddr_un> unix_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.size() >= sizeof address.sun_path) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "socket path " + text + " is too long; set HEADRACE_RUNTIME_DIR to a shorter folder");
  }
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}

}  // namespace headrace::cli
