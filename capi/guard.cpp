// SPDX-License-Identifier: Apache-2.0
#include "headrace/capi/internal/guard.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace headrace::capi {
namespace {

std::string& text_of_this_thread() {
  thread_local std::string text;
  return text;
}

}  // namespace

hr_status status_of(const io::Error& error) {
  switch (error.code) {
    case io::ErrorCode::kNotFound:
      return HR_NOT_FOUND;
    case io::ErrorCode::kInvalidArgument:
      return HR_INVALID_ARGUMENT;
    case io::ErrorCode::kPermission:
      return HR_PERMISSION;
    case io::ErrorCode::kNoSpace:
      return HR_NO_SPACE;
    case io::ErrorCode::kShortRead:
    case io::ErrorCode::kCorrupt:
      return HR_BAD_DATA;
    case io::ErrorCode::kStale:
      return HR_STALE;
    case io::ErrorCode::kUnsupported:
      return HR_UNSUPPORTED;
    case io::ErrorCode::kBusy:
      return HR_BUSY;
    case io::ErrorCode::kCancelled:
    case io::ErrorCode::kTimedOut:  // HR_END and HR_TIMED_OUT are no errors, and hr_loader_next()'s alone
    case io::ErrorCode::kSystem:
      break;
  }
  return error.os_errno == ENOMEM ? HR_NO_MEMORY : HR_IO;
}

hr_status fail(hr_status status, const std::string& text) noexcept try {
  text_of_this_thread() = text;
  return status;
} catch (...) {
  return HR_NO_MEMORY;  // the text of an earlier failure stays
}

hr_status fail(const io::Error& error) noexcept try {
  const hr_status status = status_of(error);
  // What is wrong with a sample has no status of its own; of the others the text need not name it again.
  const bool status_tells = status == HR_INVALID_ARGUMENT || status == HR_NOT_FOUND || status == HR_PERMISSION;
  const bool has_text = error.os_errno == 0 && !error.context.empty();
  return fail(status, status_tells && has_text ? error.context : error.message());
} catch (...) {
  return HR_NO_MEMORY;
}

const char* last_error_text() {
  return text_of_this_thread().c_str();
}

Home::Home() : process_(::getpid()) {}

bool Home::is_here() const {
  return ::getpid() == process_;
}

uint64_t copy_text(const std::string& text, char* buffer, uint64_t buffer_bytes) {
  if (buffer != nullptr && buffer_bytes > 0) {
    const std::size_t bytes = std::min<std::size_t>(text.size(), buffer_bytes - 1);
    std::memcpy(buffer, text.data(), bytes);
    buffer[bytes] = '\0';
  }
  return text.size();
}

}  // namespace headrace::capi
