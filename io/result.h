// SPDX-License-Identifier: Apache-2.0
// Errors as values: Result<T> is a T or an Error; Status is success or an Error.
//
//   Result<Buffer> buffer = Buffer::allocate(size);
//   if (!buffer) return forward_error(std::move(buffer));
//   HEADRACE_TRY(more, Buffer::allocate(size));   // the same in one line; `more` is a Buffer
//
// Expected outcomes (missing file, short read, full disk) are values. Programmer errors are HEADRACE_ASSERT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace headrace::io {

enum class ErrorCode : std::uint8_t {
  kSystem,           // an errno that has no code of its own; see Error::os_errno
  kNotFound,         // no such file, entry, record or sample
  kInvalidArgument,  // bad input from the user: option, spec, size
  kPermission,       // EACCES, EPERM
  kNoSpace,          // ENOSPC, EDQUOT: a tier or file system is full
  kShortRead,        // fewer bytes than asked: the file ended early
  kCorrupt,          // content fails its checksum or makes no sense
  kStale,            // the source file is no longer the one in the catalog
  kCancelled,        // cancelled by the caller or by shutdown
  kTimedOut,         // the time given was over
  kUnsupported,      // this kernel, file system or build does not offer it
  kBusy,             // owned by somebody else (lock file, mount point in use)
};

struct Error {
  ErrorCode code = ErrorCode::kSystem;
  int os_errno = 0;     // 0 when no system call was involved
  std::string context;  // names the thing: "open /data/a.jpg"

  // One line for people to read: the context, then the reason.
  [[nodiscard]] std::string message() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// The code that an errno stands for. The only place where errno becomes ErrorCode.
[[nodiscard]] ErrorCode code_from_errno(int os_errno);
// The errno to show to a system-call caller (the mount's readers). Never 0.
[[nodiscard]] int errno_from_error(const Error& error);
[[nodiscard]] std::string_view name_of(ErrorCode code);

[[nodiscard]] inline tl::unexpected<Error> make_error(ErrorCode code, std::string context, int os_errno = 0) {
  return tl::unexpected<Error>(Error{code, os_errno, std::move(context)});
}
[[nodiscard]] inline tl::unexpected<Error> system_error(int os_errno, std::string context) {
  return tl::unexpected<Error>(Error{code_from_errno(os_errno), os_errno, std::move(context)});
}
// Passes the error of one Result on as the error of another.
template <typename T>
[[nodiscard]] tl::unexpected<Error> forward_error(Result<T>&& failed) {
  return tl::unexpected<Error>(std::move(failed.error()));
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace headrace::io

// For programmer errors only; on in release builds too. Input and disk content must never reach one.
#define HEADRACE_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::headrace::io::assertion_failed(#condition, __FILE__, __LINE__))

// Ends the calling function with the error of `expression`, or names its value:
//
//   HEADRACE_TRY(buffer, Buffer::allocate(size));   // `buffer` is a Buffer from here on
//   HEADRACE_TRY_DO(folder.sync());                 // a Status: nothing to name
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared cannot stand in parentheses.
#define HEADRACE_TRY(name, expression)                                                    \
  auto name##_or_error = (expression);                                                    \
  if (!name##_or_error) return ::headrace::io::forward_error(std::move(name##_or_error)); \
  auto name = *std::move(name##_or_error)
// NOLINTEND(bugprone-macro-parentheses)
#define HEADRACE_TRY_DO(expression)                                        \
  if (::headrace::io::Status failed_status = (expression); !failed_status) \
  return ::headrace::io::forward_error(std::move(failed_status))
