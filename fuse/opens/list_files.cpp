// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/list_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "headrace/cache/list_file.h"

namespace headrace::fuse {
using io::MutexLock;

namespace {

// Some 200 000 lines; and what is shorter names no 16 samples.
constexpr std::uint64_t kBytesMost = 8 << 20;
constexpr std::uint64_t kBytesLeast = 64;
// Training, validation and test of a few folds: at most so many are read in a mount, or lie in a folder.
constexpr std::size_t kFilesMost = 32;
// Of all of them: a learner keeps their texts until it has a search to do.
constexpr std::uint64_t kBytesInAllMost = 32 << 20;

[[nodiscard]] bool looks_like_list(std::string_view name) {
  constexpr std::string_view kEndings[] = {".csv", ".tsv", ".txt", ".lst", ".list", ".jsonl"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

bool ListFiles::is_among_few(cache::EntryId entry) {
  const cache::Catalog& catalog = store_.catalog();
  const auto [found, is_new] = has_few_.try_emplace(catalog.parent(entry), true);
  if (!is_new) return found->second;
  const cache::Catalog::Range siblings = catalog.children(catalog.parent(entry));
  std::size_t count = 0;
  for (cache::EntryId i = 0; i < siblings.count && count <= kFilesMost; ++i)
    count += looks_like_list(catalog.name(siblings.first + i)) ? 1 : 0;
  return found->second = count <= kFilesMost;
}

// It may have grown since it was listed.
void ListFiles::on_read(cache::EntryId entry) {
  if (!looks_like_list(store_.catalog().name(entry))) return;
  const io::Result<cache::Identity> identity = store_.identity(entry);
  if (!identity || identity->size_bytes < kBytesLeast || identity->size_bytes > kBytesMost) return;
  {
    MutexLock lock(mutex_);
    if (!offer_ || taken_.size() == kFilesMost || bytes_ + identity->size_bytes > kBytesInAllMost) return;
    if (!is_among_few(entry) || !taken_.insert(entry).second) return;
    bytes_ += identity->size_bytes;
  }
  auto done = [self = shared_from_this(), entry, bytes = identity->size_bytes](const io::Result<cache::View>& view) {
    view ? self->on_content(entry, *view) : self->on_failed(entry, bytes);
  };
  store_.read_async(entry, std::move(done), cache::ReadHint::kAhead);
}

void ListFiles::on_content(cache::EntryId entry, const cache::View& view) {
  if (view.bytes().size() > kBytesMost) return;
  const auto text =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size());
  const cache::Catalog& catalog = store_.catalog();
  MutexLock lock(mutex_);
  if (!offer_) return;
  offer_([text, &catalog, entry](const cache::SampleRange& range) {
    return cache::samples_named_in(*text, catalog, catalog.parent(entry), range);
  });
}

void ListFiles::on_failed(cache::EntryId entry, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  taken_.erase(entry);
  bytes_ -= bytes;
}

void ListFiles::on_changed(std::span<const cache::EntryId> entries) {
  MutexLock lock(mutex_);
  for (const cache::EntryId entry : entries) taken_.erase(entry);
}

void ListFiles::stop() {
  MutexLock lock(mutex_);
  offer_ = nullptr;
}

}  // namespace headrace::fuse
