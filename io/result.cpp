// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace headrace::io {

std::string Error::message() const {
  std::string reason = os_errno != 0 ? std::generic_category().message(os_errno) : std::string(name_of(code));
  return context.empty() ? reason : context + ": " + reason;
}

ErrorCode code_from_errno(int os_errno) {
  switch (os_errno) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
      return ErrorCode::kPermission;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kNoSpace;
    case ECANCELED:
      return ErrorCode::kCancelled;
    case ETIME:
    case ETIMEDOUT:
      return ErrorCode::kTimedOut;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::kUnsupported;
    case EBUSY:
      return ErrorCode::kBusy;
    case ESTALE:
      return ErrorCode::kStale;
    case EINVAL:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kSystem;
  }
}

int errno_from_error(const Error& error) {
  if (error.os_errno > 0) return error.os_errno;
  switch (error.code) {
    case ErrorCode::kNotFound:
      return ENOENT;
    case ErrorCode::kPermission:
      return EACCES;
    case ErrorCode::kNoSpace:
      return ENOSPC;
    case ErrorCode::kStale:
      return ESTALE;
    case ErrorCode::kCancelled:
      return EINTR;
    case ErrorCode::kTimedOut:
      return ETIMEDOUT;
    case ErrorCode::kInvalidArgument:
      return EINVAL;
    case ErrorCode::kUnsupported:
      return EOPNOTSUPP;
    case ErrorCode::kBusy:
      return EBUSY;
    case ErrorCode::kSystem:
    case ErrorCode::kShortRead:
    case ErrorCode::kCorrupt:
      return EIO;
  }
  return EIO;
}

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kSystem:
      return "system error";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kInvalidArgument:
      return "invalid";
    case ErrorCode::kPermission:
      return "permission denied";
    case ErrorCode::kNoSpace:
      return "no space left";
    case ErrorCode::kShortRead:
      return "file ended early";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kStale:
      return "changed since it was catalogued";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kTimedOut:
      return "timed out";
    case ErrorCode::kUnsupported:
      return "not supported here";
    case ErrorCode::kBusy:
      return "in use";
  }
  return "unknown";
}

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "headrace: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace headrace::io
