// SPDX-License-Identifier: Apache-2.0
// What the environment and the profile add to the options of a bucket, by the names that all of Amazon's tools use.
//
//   HEADRACE_TRY(settings, complete_options(options));   // settings.endpoint, .region, .ca_file are filled in
//
// Thread-safety: a pure function of options, environment and files.
#pragma once

#include "headrace/cache/object_store.h"
#include "headrace/io/result.h"

namespace headrace::cache {

// Errors: kInvalidArgument (an endpoint or region that is none).
[[nodiscard]] io::Result<ObjectStoreOptions> complete_options(ObjectStoreOptions options);
[[nodiscard]] bool may_be_region(std::string_view region);

}  // namespace headrace::cache
