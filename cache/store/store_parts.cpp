// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/store_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include <sys/stat.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/read_rights.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {

using io::MutexLock;

StoreParts::StoreParts(Catalog catalog_in, std::uint64_t ram_bytes)
    : catalog(std::move(catalog_in)),
      ram(ram_bytes, [this] { memory.pump_soon(); }),
      memory(ram, timers, [this](std::function<void()> task) { source->post(std::move(task)); }) {}

void StoreParts::set_identity(EntryId entry, const std::optional<Identity>& identity) {
  MutexLock lock(change_mutex);
  carry_out(entry, identity);
}

void StoreParts::set_attributes(EntryId entry, const AttributeClass& attributes) {
  MutexLock lock(change_mutex);
  carry_out(entry, attributes);
}

void StoreParts::tell_attributes(EntryId entry) {
  MutexLock lock(change_mutex);
  if (change_listener) change_listener({.attributes = {{entry, identities.attributes(entry)}}});
}

Status StoreParts::look_at(EntryId entry, const std::optional<Identity>& expected) {
  const auto is_as_expected = [&] {
    const Result<Identity> known = identities.of(entry);
    return (known ? std::optional(*known) : std::nullopt) == expected;
  };
  if (!is_as_expected()) return {};
  const std::string path = catalog.path(entry);
  HEADRACE_TRY(found, source->tree()->look_at(path));
  if (!S_ISREG(found.mode)) return io::make_error(io::ErrorCode::kNotFound, path + ": no file any more");
  MutexLock lock(change_mutex);
  if (!is_as_expected()) return {};
  carry_out(entry, attributes_of(found));                   // first, so that nobody is shown the content before
  if (catalog.identity(entry).inode == 0) found.inode = 0;  // the scan has seen that numbers do not last there
  carry_out(entry, identity_of(found));
  identities.confirm(entry);
  return {};
}

std::optional<Identity> StoreParts::version_anew(EntryId entry, const AttributeClass& let_in_by,
                                                 unsigned attempts_left) const {
  if (attempts_left == 0 || closing.load() || !lets_in_all(identities.attributes(entry), let_in_by))
    return std::nullopt;
  const Result<Identity> now = identities.of_file(entry);
  return now ? std::optional(*now) : std::nullopt;
}

void StoreParts::carry_out(EntryId entry, const AttributeClass& attributes) {
  if (!identities.set_attributes(entry, attributes)) return;
  if (change_listener) change_listener({.attributes = {{entry, attributes}}});
}

void StoreParts::carry_out(EntryId entry, const std::optional<Identity>& identity) {
  const std::uint32_t old_chunks = identities.chunks_of(entry);
  const Result<Identity> before = identities.of(entry);
  if (!identities.set(entry, identity)) return;
  if (known_files && before) known_files->forget(hash_identity(*before));
  if (known_files && identity) known_files->add(hash_identity(*identity));
  for (std::uint32_t chunk = 0; chunk < old_chunks; ++chunk) ram.forget({entry, chunk});
  source->let_go(entry);
  if (!change_listener) return;
  CatalogChanges change;
  identity ? change.changed.push_back({entry, *identity}) : change.vanished.push_back(entry);
  change_listener(change);
}

void StoreParts::copy_to_tier(Holding& holding, const RecordId& record, std::size_t from) {
  if (closing.load()) return;
  const EntryId entry = holding.key.entry;
  for (std::size_t i = 0; i < std::min(from, tiers.size()); ++i) {
    DiskTier& tier = *tiers[i];
    if (!tier.admits(holding.size) || !follower->wants(i, entry)) continue;
    if (tier.contains(record) || !has_line_for(tier, holding.cost_bytes) || !ram.pin_for_write(holding)) return;
    return write(tier, holding, record, [this, i, entry, from, record](const Status& written) {
      if (!written) return;
      if (from < tiers.size()) tiers[from]->drop(record);      // promoted
      if (!follower->wants(i, entry)) tiers[i]->drop(record);  // evicted meanwhile
    });
  }
}

bool StoreParts::has_line_for(const DiskTier& tier, std::uint64_t bytes) const {
  const std::uint64_t budget = ram.budget_bytes();
  const std::uint64_t most = budget > 0 ? std::min(kWriteBehindBytesMax, budget / 4) : kWriteBehindBytesMax;
  return tier.pending_bytes() + bytes <= most;
}

void StoreParts::write(DiskTier& tier, Holding& holding, const RecordId& record, std::function<void(Status)> done) {
  memory.on_write_begun();
  tier.write(holding, record, [this, done = std::move(done)](Status written) {
    memory.on_write_ended();
    done(std::move(written));
  });
}

void StoreParts::share(Holding& holding, const SharedId& id, std::function<void(Status)> done) {
  memory.on_write_begun();
  shared->put(holding, id, [this, done = std::move(done)](Status shared_status) {
    memory.on_write_ended();
    if (done) done(std::move(shared_status));
  });
}

bool StoreParts::held_on_disk(const RecordId& record) const {
  return std::any_of(tiers.begin(), tiers.end(), [&](const auto& tier) { return tier->contains(record); });
}

}  // namespace headrace::cache
