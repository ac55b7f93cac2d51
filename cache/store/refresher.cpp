// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/refresher.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include <pthread.h>

#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {
namespace {

using io::MutexLock;
using std::chrono::steady_clock;

// Files by what they are now; nullopt: gone.
using Found = std::map<EntryId, std::optional<Identity>>;

Found found_by(const CatalogChanges& changes) {
  Found found;
  for (const CatalogChanges::Changed& each : changes.changed) found[each.entry] = each.identity;
  for (const EntryId entry : changes.vanished) found[entry] = std::nullopt;
  return found;
}

// What differs between two comparisons with the same catalog.
std::set<EntryId> differences(const Catalog& catalog, const Found& before, const Found& now) {
  std::set<EntryId> entries;
  for (const auto& [entry, identity] : now) {
    const auto known = before.find(entry);
    if (known == before.end() || known->second != identity) entries.insert(entry);
  }
  for (const auto& [entry, identity] : before) {
    if (now.find(entry) == now.end() && identity != catalog.identity(entry)) entries.insert(entry);
  }
  return entries;
}

}  // namespace

struct Refresher::Impl {
  Impl(Store& store_in, RefresherOptions options_in)
      : store(store_in), options(std::move(options_in)), requested(options.at_start) {}

  void run();
  bool wait_for_turn();
  [[nodiscard]] steady_clock::time_point next_turn();
  void compare();
  [[nodiscard]] Result<std::size_t> tell_store(const CatalogChanges& changes);
  [[nodiscard]] Status tell_file(EntryId entry, const Found& now);
  [[nodiscard]] std::map<EntryId, AttributeClass> attributes_by(const CatalogChanges& changes) const;
  [[nodiscard]] bool is_for_names() const;
  void note(const CatalogChanges& changes, std::size_t told);
  void show_others(const CatalogChanges& changes);
  void fail(const io::Error& error);

  Store& store;
  const RefresherOptions options;
  std::atomic<bool> stop = false;

  mutable io::Mutex mutex;
  io::CondVar wake;
  bool requested HEADRACE_GUARDED_BY(mutex);
  bool names_requested HEADRACE_GUARDED_BY(mutex) = false;
  bool for_names HEADRACE_GUARDED_BY(mutex) = false;  // what is compared now
  State state HEADRACE_GUARDED_BY(mutex);
  std::unordered_map<EntryId, std::int64_t> told_touches;  // of `thread` alone: ctimes as they were told last
  std::thread thread;
};

Refresher::Refresher(Store& store, RefresherOptions options)
    : impl_(std::make_unique<Impl>(store, std::move(options))) {
  impl_->thread = std::thread([impl = impl_.get()] {
    ::pthread_setname_np(::pthread_self(), "hr-refresh");
    impl->run();
  });
}

Refresher::~Refresher() {
  {
    MutexLock lock(impl_->mutex);
    impl_->stop.store(true);
    impl_->wake.notify_all();
  }
  impl_->thread.join();
}

void Refresher::request() {
  MutexLock lock(impl_->mutex);
  impl_->requested = true;
  impl_->names_requested = true;
  impl_->wake.notify_all();
}

Refresher::State Refresher::state() const {
  MutexLock lock(impl_->mutex);
  State state = impl_->state;
  state.running = state.running || impl_->requested;
  return state;
}

void Refresher::Impl::run() {
  while (wait_for_turn()) {
    compare();
    MutexLock lock(mutex);
    state.running = false;
  }
}

steady_clock::time_point Refresher::Impl::next_turn() {
  constexpr std::uint64_t kDoublingsMax = 5;
  const auto now = steady_clock::now();
  auto turn = options.every.count() > 0 ? now + options.every : steady_clock::time_point::max();
  MutexLock lock(mutex);
  if (state.failures > 0) {
    turn = std::min<steady_clock::time_point>(
        turn, now + options.again_after * (1U << std::min(state.failures - 1, kDoublingsMax)));
  }
  return turn;
}

// False: to end.
bool Refresher::Impl::wait_for_turn() {
  const auto deadline = next_turn();
  MutexLock lock(mutex);
  while (!stop.load() && !requested && steady_clock::now() < deadline) {
    if (deadline == steady_clock::time_point::max()) {
      wake.wait(lock);
    } else {
      wake.wait_until(lock, deadline);
    }
  }
  requested = false;
  for_names = std::exchange(names_requested, false);
  state.running = true;
  return !stop.load();
}

void Refresher::Impl::compare() {
  std::optional<CatalogOptions> next;
  if (options.on_other_names && is_for_names()) next = options.catalog;
  const Result<CatalogChanges> changes = store.find_changes({.threads = options.threads, .stop = &stop, .next = next});
  if (stop.load()) return;
  if (!changes) return fail(changes.error());
  const Result<std::size_t> told = tell_store(*changes);
  if (options.on_told) options.on_told();
  if (!told) return fail(told.error());
  if (store.catalog().unreadable() == 0) store.set_compared();  // else some may not have been looked at
  note(*changes, *told);
  if (next && changes->names_differ()) show_others(*changes);
}

bool Refresher::Impl::is_for_names() const {
  MutexLock lock(mutex);
  return for_names;
}

void Refresher::Impl::note(const CatalogChanges& changes, std::size_t told) {
  MutexLock lock(mutex);
  if (told > 0 || changes.appeared != state.appeared) {
    io::log_info("refresh: {} files changed, {} vanished, {} names appeared since the catalog was made",
                 changes.changed.size(), changes.vanished.size(), changes.appeared);
  }
  state = {.running = true,
           .rounds = state.rounds + 1,
           .changed = changes.changed.size(),
           .vanished = changes.vanished.size(),
           .appeared = changes.appeared,
           .why_not_shown = "",
           .failure = "",
           .failures = 0};
}

void Refresher::Impl::show_others(const CatalogChanges& changes) {
  const Status shown = changes.next ? options.on_other_names(changes)
                                    : io::make_error(io::ErrorCode::kUnsupported, "not all of the source can be read");
  if (shown) return;
  const io::Error& error = shown.error();
  const std::string why = error.os_errno != 0 ? error.message() : error.context;  // which is a sentence
  io::log_warning("refresh: the names that the source has now cannot be shown: {}", why);
  MutexLock lock(mutex);
  state.why_not_shown = why;
  if (shown.error().code != io::ErrorCode::kBusy) return;
  names_requested = true;
  ++state.failures;
}

void Refresher::Impl::fail(const io::Error& error) {
  io::log_warning("refresh: {}", error.message());
  MutexLock lock(mutex);
  state.failure = error.message();
  ++state.failures;
}

// Returns how many files the store did not know to be as they are.
Result<std::size_t> Refresher::Impl::tell_store(const CatalogChanges& changes) {
  const Found now = found_by(changes);
  std::set<EntryId> news = differences(store.catalog(), found_by(store.changes()), now);
  std::size_t others = 0;
  for (const auto& [entry, attributes] : attributes_by(changes)) {
    if (store.attributes(entry) == attributes) continue;
    ++others;
    if (store.catalog().is_file(entry)) {
      news.insert(entry);
    } else {
      store.set_attributes(entry, attributes);
    }
  }
  // Nobody keeps ACLs to compare with, so each touch is told, once.
  for (const auto& [folder, ctime_ns] : changes.touched) {
    if (std::exchange(told_touches[folder], ctime_ns) != ctime_ns) store.tell_attributes(folder);
  }
  if (others > 0) io::log_info("refresh: {} names have another mode or owner", others);
  for (const EntryId entry : news) HEADRACE_TRY_DO(tell_file(entry, now));
  return news.size();
}

// What is not as catalogued, and what was not when the store was told last.
std::map<EntryId, AttributeClass> Refresher::Impl::attributes_by(const CatalogChanges& changes) const {
  std::map<EntryId, AttributeClass> found;
  for (const auto& [entry, ignored] : store.changes().attributes) found[entry] = store.catalog().attributes(entry);
  for (const auto& [entry, attributes] : changes.attributes) found[entry] = attributes;
  return found;
}

// A comparison takes a while, and a read may have found the file to be another meanwhile. So it is looked at once more.
Status Refresher::Impl::tell_file(EntryId entry, const Found& now) {
  const auto found = now.find(entry);
  const bool has_vanished = found != now.end() && !found->second;
  if (store.catalog().is_file(entry)) {
    Status looked = store.look_at(entry);
    if (looked || (looked.error().code != io::ErrorCode::kNotFound && !has_vanished)) return looked;
    store.set_vanished(entry);
  } else if (has_vanished) {
    store.set_vanished(entry);
  } else {
    store.set_identity(entry, store.catalog().identity(entry));  // a symlink that is back
  }
  return {};
}

}  // namespace headrace::cache
