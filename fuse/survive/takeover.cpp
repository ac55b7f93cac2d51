// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/takeover.h"

#include <array>
#include <memory>
#include <string_view>

#include <xxhash.h>

#include "headrace/fuse/survive/request_log.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::Catalog;
using cache::EntryId;

namespace {

std::uint64_t fingerprint_of(const Catalog& catalog) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    const cache::Identity identity = catalog.identity(entry);
    const std::array<std::uint64_t, 3> numbers = {std::uint64_t{catalog.parent(entry)}, identity.size_bytes,
                                                  static_cast<std::uint64_t>(identity.mtime_ns)};
    const std::string_view name = catalog.name(entry);
    XXH3_64bits_update(state.get(), numbers.data(), sizeof(numbers));
    XXH3_64bits_update(state.get(), name.data(), name.size());
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace

// The next version of the program may find it.
static_assert(kHandoverVersion == 3 && sizeof(TakeoverHead) == 40 && sizeof(ChangedFile) == 120 &&
              sizeof(SamplePages) == 5 && sizeof(RequestLog::Slot) == 2048);

Result<Takeover> open_takeover(Channel& channel, const Catalog& catalog) {
  const std::size_t samples = catalog.sample_count();
  const std::size_t entries = catalog.entry_count();
  const std::size_t pages_at = sizeof(TakeoverHead) + entries * sizeof(ChangedFile);
  HEADRACE_TRY(memory, channel.takeover_memory(pages_at + samples * sizeof(SamplePages)));
  Takeover takeover{.head = reinterpret_cast<TakeoverHead*>(memory.data()),
                    .changed = {reinterpret_cast<ChangedFile*>(memory.data() + sizeof(TakeoverHead)), entries},
                    .pages = {reinterpret_cast<SamplePages*>(memory.data() + pages_at), samples}};
  const std::uint64_t fingerprint = fingerprint_of(catalog);
  if (!channel.init_answered()) {
    takeover.head->catalog_fingerprint = fingerprint;
    if (const Status kept = channel.keep_catalog(catalog); !kept) {
      io::log_warning("{}: when the source has other names by then, the mount ends with its worker",
                      kept.error().message());
    }
  } else if (takeover.head->catalog_fingerprint != fingerprint) {
    return io::make_error(io::ErrorCode::kStale, "the source");
  }
  return takeover;
}

}  // namespace headrace::fuse
