// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/push_budget.h"

#include <algorithm>

namespace headrace::fuse {

namespace {

// Where the kernel drops pages: an eighth of the budget ahead of the reader rides out the pauses of a source; where
// that lies idle for too long still, down to a 64th.
constexpr std::uint64_t kPageCacheShareFirst = 8;
constexpr std::uint64_t kPageCacheShareLast = 64;

}  // namespace

PushBudget::PushBudget(const PageCacheAccount& pages, const Options& options)
    : pages_(pages),
      bytes_of_all_copies_(options.bytes_of_all_copies),
      can_copy_(options.can_copy),
      full_bytes_(options.bytes),
      bytes_(options.bytes) {}

void PushBudget::set(std::uint64_t bytes) {
  full_bytes_ = bytes;
  limit(bytes);
}

void PushBudget::limit(std::uint64_t bytes) {
  bytes_ = bytes;
  if (holds_all_twice()) page_cache_share_ = 1;  // split while it was smaller: there is no need any more
}

bool PushBudget::divide_for_losses() {
  if (!can_copy_ || holds_all_twice() || page_cache_share_ >= kPageCacheShareLast) return false;
  page_cache_share_ = is_split() ? page_cache_share_ * 2 : kPageCacheShareFirst;
  return true;
}

// Half: what is read next may need a quarter of the budget, and what is open but not read yet another one.
std::uint64_t PushBudget::pinnable_bytes() const {
  return bytes_ >= pages_.total_bytes() ? pages_.total_bytes() : bytes_ / 2;
}

// Of what may be wanted at one time: without the pinned samples. Where all are held, there is nothing to divide.
std::uint64_t PushBudget::planned_bytes_max() const {
  const std::uint64_t wanted = pages_.wanted_bytes_max();
  const bool divides = pages_.keeps_pins() && wanted < pages_.total_bytes();
  return divides ? wanted - std::min(wanted, pages_.pinned_bytes()) : wanted;
}

// Split: never for all samples, so that each makes way after its use and is pushed anew before the next.
std::uint64_t PushBudget::page_cache_bytes() const {
  if (!is_split()) return bytes_;
  const std::uint64_t pinned = pages_.keeps_pins() ? pages_.pinned_bytes() : 0;
  return pinned + std::min((bytes_ - pinned) / page_cache_share_, pages_.total_bytes() / 2);
}

std::uint64_t PushBudget::window_bytes() const {
  if (is_split()) return planned_bytes_max();
  if (window_samples_ == 0 || pages_.sizes().empty()) return 0;
  const std::uint64_t bytes = window_samples_ * (pages_.total_bytes() / pages_.sizes().size());
  return std::clamp(bytes, pages_.budget_bytes() / 32, pages_.budget_bytes() / 2);
}

bool PushBudget::holds_all_twice() const {
  return bytes_ >= pages_.total_bytes() && bytes_ - pages_.total_bytes() >= bytes_of_all_copies_;
}

// Beside what the page cache holds.
bool PushBudget::keeps_copies() const {
  return drops_pages_ && !is_split() && bytes_ == full_bytes_;
}

std::uint64_t PushBudget::copies_bytes_max() const {
  if (!can_copy_) return 0;
  const std::uint64_t page_cache = keeps_copies() ? pages_.total_bytes() : pages_.budget_bytes();
  return bytes_ - std::min(bytes_, std::max(page_cache, pages_.held_bytes()));
}

std::uint64_t PushBudget::copies_bytes() const {
  return is_split() ? bytes_ - pages_.budget_bytes() : copies_bytes_max();
}

}  // namespace headrace::fuse
