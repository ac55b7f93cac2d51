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

// A struct with more bytes has a size that nobody set. Room for ten times the fields of today.
constexpr uint64_t kStructBytesMax = 4096;

// A copy of a caller's struct, which begins with its size. Fields that an older header lacks are zero. `least`: its
// size in the first header. Errors: kInvalidArgument: no size that any header has, so that nothing else of the struct
// is read; kUnsupported: a newer header's field is set, which this library does not know.
template <typename Options>
[[nodiscard]] io::Result<Options> known_part(const Options* options, uint64_t least, const char* name) {
  if (options == nullptr) return io::make_error(io::ErrorCode::kInvalidArgument, std::string(name) + " is NULL");
  const uint64_t size = options->struct_bytes;
  if (size < least || size > kStructBytesMax || size % alignof(Options) != 0) {
    return io::make_error(io::ErrorCode::kInvalidArgument, std::string(name) + ": struct_bytes is " +
                                                               std::to_string(size) + "; set it to sizeof(" + name +
                                                               "), which is " + std::to_string(sizeof(Options)));
  }
  const uint64_t shared = std::min<uint64_t>(sizeof(Options), size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(options);
  if (std::any_of(bytes + shared, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return io::make_error(io::ErrorCode::kUnsupported,
                          std::string(name) + ": a field is set that this version of the library does not know");
  }
  Options known = {};
  std::memcpy(&known, options, shared);
  return known;
}

// As snprintf: what fits, and how long it is.
uint64_t copy_text(const std::string& text, char* buffer, uint64_t buffer_bytes);

}  // namespace headrace::capi
