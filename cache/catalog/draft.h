// SPDX-License-Identifier: Apache-2.0
// A file that takes the place of another one whole, or not at all.
//
//   Draft draft(file);
//   HEADRACE_TRY_DO(io::write_all(draft.fd(), bytes, 0, name));
//   HEADRACE_TRY_DO(draft.rename_to(file));
//
// Thread-safety: none; one owner.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

// A file that is written under a name of its own first. The destructor removes it if it was not renamed.
class Draft {
 public:
  explicit Draft(const std::filesystem::path& file)
      : name_(file.string() + ".XXXXXX"), fd_(::mkostemp(name_.data(), O_CLOEXEC)) {}
  ~Draft() {
    if (fd_.valid()) ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] io::Status rename_to(const std::filesystem::path& file) {
    if (::rename(name_.c_str(), file.c_str()) != 0) return io::system_error(errno, "rename to " + file.string());
    fd_.reset();
    return {};
  }

 private:
  std::string name_;
  io::UniqueFd fd_;
};

}  // namespace headrace::cache
