// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/refresher.h"

#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <pthread.h>

#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {
namespace {

using io::MutexLock;
using std::chrono::steady_clock;

// What the store has been told: a new identity, or that the file is gone.
using Told = std::map<EntryId, std::optional<Identity>>;

Told differences(const CatalogChanges& changes) {
  Told found;
  for (const CatalogChanges::Changed& each : changes.changed) found[each.entry] = each.identity;
  for (const EntryId entry : changes.vanished) found[entry] = std::nullopt;
  return found;
}

}  // namespace

struct Refresher::Impl {
  Impl(Store& store_in, RefresherOptions options_in)
      : store(store_in), options(std::move(options_in)), told(differences(store_in.changes())) {}

  void run();
  bool wait_for_turn();
  void compare();
  CatalogChanges tell_attributes(const CatalogChanges& changes);
  CatalogChanges tell_store(const CatalogChanges& changes);
  void tell(EntryId entry, const std::optional<Identity>& now, CatalogChanges& news);

  Store& store;
  const RefresherOptions options;
  Told told;  // the thread's own
  std::atomic<bool> stop = false;

  mutable io::Mutex mutex;
  io::CondVar wake;
  bool requested HEADRACE_GUARDED_BY(mutex) = true;  // the first one runs at once
  State state HEADRACE_GUARDED_BY(mutex);
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

// False: to end.
bool Refresher::Impl::wait_for_turn() {
  const auto deadline =
      options.every.count() > 0 ? steady_clock::now() + options.every : steady_clock::time_point::max();
  MutexLock lock(mutex);
  while (!stop.load() && !requested && steady_clock::now() < deadline) {
    if (deadline == steady_clock::time_point::max()) {
      wake.wait(lock);
    } else {
      wake.wait_until(lock, deadline);
    }
  }
  requested = false;
  state.running = true;
  return !stop.load();
}

void Refresher::Impl::compare() {
  const std::shared_ptr<const io::UniqueFd> source = store.source_directory();
  const Result<CatalogChanges> changes =
      find_changes(store.catalog(), source->get(), {.threads = options.threads, .stop = &stop});
  if (stop.load()) return;
  if (!changes) {
    io::log_warning("refresh: {}", changes.error().message());
    MutexLock lock(mutex);
    state.failure = changes.error().message();
    return;
  }
  // Before the content: a file that was replaced by one that fewer may read is not shown to more.
  const CatalogChanges attributes = tell_attributes(*changes);
  if (!attributes.none() && options.on_changed) options.on_changed(attributes);
  const CatalogChanges news = tell_store(*changes);
  if (!news.none() && options.on_changed) options.on_changed(news);
  MutexLock lock(mutex);
  if (!news.changed.empty() || !news.vanished.empty() || changes->appeared != state.appeared) {
    io::log_info("refresh: {} files changed, {} vanished, {} names appeared since the catalog was made",
                 changes->changed.size(), changes->vanished.size(), changes->appeared);
  }
  state = {.running = true,
           .rounds = state.rounds + 1,
           .changed = changes->changed.size(),
           .vanished = changes->vanished.size(),
           .appeared = changes->appeared,
           .failure = ""};
}

CatalogChanges Refresher::Impl::tell_attributes(const CatalogChanges& changes) {
  CatalogChanges news;
  std::map<EntryId, AttributeClass> found;
  for (const auto& [entry, ignored] : store.changes().attributes) found[entry] = store.catalog().attributes(entry);
  for (const auto& [entry, attributes] : changes.attributes) found[entry] = attributes;
  for (const auto& [entry, attributes] : found) {
    if (store.attributes(entry) == attributes) continue;
    store.set_attributes(entry, attributes);
    news.attributes.push_back({entry, attributes});
  }
  if (!news.none()) io::log_info("refresh: {} names have another mode or owner", news.attributes.size());
  return news;
}

// Returns what the store has not been told before. That a file is as catalogued again is news, too.
CatalogChanges Refresher::Impl::tell_store(const CatalogChanges& changes) {
  CatalogChanges news;
  Told found = differences(changes);
  for (const auto& [entry, before] : told) {
    if (found.find(entry) == found.end()) tell(entry, store.catalog().identity(entry), news);
  }
  for (const auto& [entry, now] : found) {
    const auto before = told.find(entry);
    if (before == told.end() || before->second != now) tell(entry, now, news);
  }
  told = std::move(found);
  return news;
}

void Refresher::Impl::tell(EntryId entry, const std::optional<Identity>& now, CatalogChanges& news) {
  if (now) {
    store.set_identity(entry, *now);
    news.changed.push_back({entry, *now});
  } else {
    if (store.catalog().is_file(entry)) store.set_vanished(entry);
    news.vanished.push_back(entry);
  }
}

}  // namespace headrace::cache
