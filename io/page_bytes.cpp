// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/page_bytes.h"

#include <unistd.h>

namespace headrace::io {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace headrace::io
