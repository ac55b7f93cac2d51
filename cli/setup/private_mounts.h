// SPDX-License-Identifier: Apache-2.0
// Gives this process mounts of its own: what it mounts from then on is seen by it and its children alone, and goes with
// the last of them.
//
// Thread-safety: none; the process must have one thread.
#pragma once

#include <string_view>

#include "headrace/io/result.h"

namespace headrace::cli {

enum class PrivateMounts {
  kOfRoot,           // a mount namespace
  kOfUserNamespace,  // a user namespace in which this user keeps its number, and a mount namespace in that
};
[[nodiscard]] std::string_view describe(PrivateMounts way);

// Mounts that are made outside later are still seen. In a user namespace, files of other users belong to nobody.
// Errors: kPermission (neither way is allowed here; the sentence says what forbids it). Some systems refuse only in the
// middle, and there is no way back: see_private_mounts() finds that out in a process of its own.
[[nodiscard]] io::Result<PrivateMounts> enter_private_mounts();
[[nodiscard]] io::Status see_private_mounts();

}  // namespace headrace::cli
