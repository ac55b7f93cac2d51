// SPDX-License-Identifier: Apache-2.0
// One operation by blocking system calls on the calling thread.
//
//   begin(operation);
//   perform(operation);   // sets the outcome
//   deliver(operation);
//
// Thread-safety: any thread; an operation is one thread's at a time.
#pragma once

#include "headrace/io/engine.h"

namespace headrace::io::internal {

void perform(Operation& operation);

}  // namespace headrace::io::internal
