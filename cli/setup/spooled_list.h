// SPDX-License-Identifier: Apache-2.0
// A list on standard input, for a daemon that is to read it.
//
//   SpooledList spooled;
//   HEADRACE_TRY(path, spooled.path_of("-"));   // of another name: that, made absolute
//   ...                                         // the daemon reads `path`
//   spooled.rename_in(error.context);           // "on standard input"
//
// It lies in memory, under a path that a daemon of the same user can open while this lives. So there is no file that a
// signal could leave behind. Thread-safety: none.
#pragma once

#include <filesystem>
#include <string>

#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {

class SpooledList {
 public:
  // Errors: kInvalidArgument (too long, or a line of it), kNoSpace (no memory for it).
  [[nodiscard]] io::Result<std::filesystem::path> path_of(const std::string& list);
  // Lets a message say "on standard input" where it names the path.
  void rename_in(std::string& message) const;

 private:
  [[nodiscard]] io::Result<std::filesystem::path> read_standard_input();

  io::UniqueFd fd_;
  std::filesystem::path path_;
};

}  // namespace headrace::cli
