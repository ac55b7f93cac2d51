// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/kept_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace headrace::cache {

using io::MutexLock;

std::shared_ptr<const KeptFile> KeptFiles::find(EntryId entry, const Identity& identity, const SourceRoot* root) {
  MutexLock lock(mutex_);
  const auto found = files_.find(entry);
  if (found == files_.end()) return nullptr;
  std::shared_ptr<const KeptFile> file = found->second.file;
  const bool is_same = file->identity == identity && file->root.get() == root;
  if (is_same) {
    found->second.used = ++clock_;
    return file;
  }
  files_.erase(found);
  lock.unlock();
  close_later(std::move(file));
  return nullptr;
}

void KeptFiles::keep(EntryId entry, KeptFile file) {
  // Opened as nobody knew yet what it was (io: open_flags()); now it may wait for its device.
  ::fcntl(file.fd.get(), F_SETFL, ::fcntl(file.fd.get(), F_GETFL) & ~O_NONBLOCK);
  auto kept = std::make_shared<const KeptFile>(std::move(file));
  std::shared_ptr<const KeptFile> gone;
  bool begin_looking = false;
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    if (!files_.contains(entry) && files_.size() == kKeptFilesMax) {
      const auto least = oldest();
      gone = std::move(least->second.file);
      files_.erase(least);
    }
    Kept& slot = files_[entry];
    if (slot.file) gone = std::move(slot.file);  // two readers opened it at the same time
    slot = {std::move(kept), ++clock_};
    begin_looking = !std::exchange(looks_, true);
  }
  if (gone) close_later(std::move(gone));
  if (begin_looking) look_later();
}

KeptFiles::Files::iterator KeptFiles::oldest() {
  return std::min_element(files_.begin(), files_.end(),
                          [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
}

void KeptFiles::let_go(EntryId entry) {
  MutexLock lock(mutex_);
  Files::node_type gone = files_.extract(entry);
  lock.unlock();
  if (!gone.empty()) close_later(std::move(gone.mapped().file));
}

// A server may take its time, and the caller has reads to answer.
void KeptFiles::close_later(std::shared_ptr<const KeptFile> file) {
  timers_.after({}, [file = std::move(file)] {});
}

void KeptFiles::close() {
  Files gone;
  MutexLock lock(mutex_);
  closed_ = true;
  gone.swap(files_);
}

std::size_t KeptFiles::count() const {
  MutexLock lock(mutex_);
  return files_.size();
}

void KeptFiles::look_later() {
  timers_.after(idle_, [this] { look(); });
}

void KeptFiles::look() {
  std::vector<Files::node_type> idle;
  bool look_again = false;
  {
    MutexLock lock(mutex_);
    for (auto each = files_.begin(); each != files_.end();) {
      const auto file = each++;
      if (file->second.used <= looked_) idle.push_back(files_.extract(file));
    }
    looked_ = clock_;
    look_again = looks_ = !files_.empty() && !closed_;
  }
  if (look_again) look_later();
}

}  // namespace headrace::cache
