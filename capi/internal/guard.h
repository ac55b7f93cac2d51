// SPDX-License-Identifier: Apache-2.0
// The border between C and C++: errors and exceptions become a status and a text.
//
//   return guarded([&]() -> io::Status {
//     HEADRACE_TRY(store, cache::Store::open(options));
//     ...
//   });
//
// Thread-safety: any thread; the text is the calling thread's.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <sys/types.h>

#include "headrace/capi/headrace.h"
#include "headrace/io/result.h"

namespace headrace::capi {

[[nodiscard]] hr_status status_of(const io::Error& error);
// Keeps the text for hr_error_text() and returns the status.
hr_status fail(hr_status status, const std::string& text) noexcept;
hr_status fail(const io::Error& error) noexcept;
[[nodiscard]] const char* last_error_text();

template <typename Body>
int32_t guarded(Body body) noexcept try {
  const io::Status status = body();
  return status ? HR_OK : fail(status.error());
} catch (const std::bad_alloc&) {
  return fail(HR_NO_MEMORY, "memory is short");
} catch (const std::exception& error) {
  return fail(HR_INTERNAL, error.what());
} catch (...) {
  return fail(HR_INTERNAL, "an exception of unknown type");
}

// The process that made a handle. In a child of it no thread of the handle runs, and locks may be held for ever.
class Home {
 public:
  Home();
  [[nodiscard]] bool is_here() const;

 private:
  const pid_t process_;
};

// A copy of a caller's struct, which begins with its size. Fields that an older header lacks are zero. Errors:
// kInvalidArgument; kUnsupported: a newer header's field is set, which this library does not know.
template <typename Options>
[[nodiscard]] io::Result<Options> known_part(const Options* options, const char* name) {
  if (options == nullptr || options->struct_bytes < sizeof(options->struct_bytes)) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          std::string(name) + ": struct_bytes must be sizeof(" + name + ")");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(options);
  if (std::any_of(bytes + std::min<uint64_t>(sizeof(Options), options->struct_bytes), bytes + options->struct_bytes,
                  [](unsigned char byte) { return byte != 0; })) {
    return io::make_error(io::ErrorCode::kUnsupported,
                          std::string(name) + ": a field is set that this version of the library does not know");
  }
  Options known = {};
  std::memcpy(&known, options, std::min<uint64_t>(sizeof(Options), options->struct_bytes));
  return known;
}

// As snprintf: what fits, and how long it is.
uint64_t copy_text(const std::string& text, char* buffer, uint64_t buffer_bytes);

}  // namespace headrace::capi
