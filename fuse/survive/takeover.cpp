// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/takeover.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <xxhash.h>

#include "headrace/fuse/kernel/request_log.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::Catalog;
using cache::EntryId;

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

// The next version of the program may find it.
static_assert(kHandoverVersion == 3 && sizeof(TakeoverHead) == 72 && sizeof(ChangedFile) == 120 &&
              sizeof(NameNumber) == 4 && sizeof(SamplePages) == 5 && sizeof(RequestLog::Slot) == 2048);

std::size_t takeover_bytes(const Catalog& catalog) {
  return sizeof(TakeoverHead) + catalog.entry_count() * (sizeof(ChangedFile) + sizeof(NameNumber)) +
         catalog.sample_count() * sizeof(SamplePages);
}

Takeover takeover_in(std::span<std::byte> memory, const Catalog& catalog) {
  const std::size_t entries = catalog.entry_count();
  const std::size_t numbers_at = sizeof(TakeoverHead) + entries * sizeof(ChangedFile);
  const std::size_t pages_at = numbers_at + entries * sizeof(NameNumber);
  return {.head = reinterpret_cast<TakeoverHead*>(memory.data()),
          .changed = {reinterpret_cast<ChangedFile*>(memory.data() + sizeof(TakeoverHead)), entries},
          .numbers = {reinterpret_cast<NameNumber*>(memory.data() + numbers_at), entries},
          .pages = {reinterpret_cast<SamplePages*>(memory.data() + pages_at), catalog.sample_count()}};
}

std::shared_ptr<Inodes> make_inodes(const Catalog& catalog, const Takeover& takeover, bool takes_over) {
  const bool has_numbers = takeover.head->name_numbers_end > 0;
  auto inodes = has_numbers ? std::make_shared<Inodes>(catalog, takeover.numbers) : std::make_shared<Inodes>(catalog);
  if (takes_over) inodes->note_given_before();
  return inodes;
}

Result<Takeover> open_takeover(Channel& channel, const Catalog& catalog, std::vector<std::string>* fallbacks) {
  HEADRACE_TRY(memory, channel.takeover_memory(takeover_bytes(catalog)));
  const Takeover takeover = takeover_in(memory, catalog);
  const std::uint64_t fingerprint = fingerprint_of(catalog);
  std::string lost;
  if (!channel.init_answered()) {
    takeover.head->catalog_fingerprint = fingerprint;
    if (const Status kept = channel.keep_catalog(catalog); !kept) {
      lost = kept.error().message() + ": when the source has other names by then, the mount ends with its worker";
    }
  } else if (takeover.head->catalog_fingerprint != fingerprint) {
    return io::make_error(io::ErrorCode::kStale, "the source");
  }
  if (lost.empty()) lost = channel.catalog_fallback();
  if (!lost.empty() && fallbacks != nullptr) fallbacks->push_back(std::move(lost));
  return takeover;
}

}  // namespace headrace::fuse
