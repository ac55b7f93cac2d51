// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/delivery.h"

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

namespace headrace::fuse {

void Delivery::expect(const Fetch& fetch) const {
  if (answers_ == nullptr || !fetch.is_one_piece()) return;
  stale_.unless_changed(fetch.entry, fetch.changes, [&] { answers_->expect(fetch.sample, fetch.inode); });
}

bool Delivery::is_read(const Fetch& fetch) const {
  return fetch.view && fetch.view->bytes().size() >= fetch.piece_bytes() && !has_changed(fetch);
}

void Delivery::show(const Fetch& fetch) const {
  if (answers_ == nullptr) return;
  const bool is_good = is_read(fetch) && parts_.inodes->stands_for(fetch.inode, parts_.identity_of(fetch.entry));
  answers_->arrive(fetch.sample, is_good ? fetch.view->bytes() : std::span<const std::byte>(),
                   is_good ? fetch.view : nullptr);
}

int Delivery::store(const Fetch& fetch) const {
  const std::span<const std::byte> bytes = fetch.view->bytes();
  if (bytes.empty()) {  // an empty file: knowing its attributes is all
    kernel_.make_known(fetch.entry);
    return 0;
  }
  const KernelPages::Storing storing = kernel_.begin_store(fetch.entry);
  // Where it is another version by now, its bytes are not for who has opened the one before.
  const cache::Identity now = parts_.identity_of(fetch.entry);
  const bool is_whole = fetch.begin == 0 && fetch.offset == 0 && bytes.size() == now.size_bytes;
  if (has_changed(fetch) || !parts_.inodes->give(fetch.inode, now, is_whole ? bytes : bytes.first(0))) return ESTALE;
  if (!fetch.beacon) return kernel_.store(fetch.entry, fetch.inode, fetch.offset, bytes);
  leave_beacon(fetch);
  const std::uint64_t before = *fetch.beacon - fetch.offset;
  const std::uint64_t after = before + parts_.records->page_bytes();
  if (const int failure = kernel_.store(fetch.entry, fetch.inode, fetch.offset, bytes.first(before)); failure != 0)
    return failure;
  return kernel_.store(fetch.entry, fetch.inode, fetch.offset + after, bytes.subspan(after));
}

// Before the rest is pushed: whoever reads that asks for this page next.
void Delivery::leave_beacon(const Fetch& fetch) const {
  const auto page = fetch.view->bytes().subspan(*fetch.beacon - fetch.offset, parts_.records->page_bytes());
  RecordAnswers::Beacon beacon{.inode = fetch.inode, .offset = *fetch.beacon, .bytes = {page.begin(), page.end()}};
  stale_.unless_changed(fetch.entry, fetch.changes, [&] { answers_->leave_beacon(fetch.sample, std::move(beacon)); });
}

}  // namespace headrace::fuse
