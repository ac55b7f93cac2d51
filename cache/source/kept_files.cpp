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
  return nullptr;
}

void KeptFiles::keep(EntryId entry, KeptFile file) {
  // Opened as nobody knew yet what it was (io: open_flags()); now it may wait for its device.
  ::fcntl(file.fd.get(), F_SETFL, ::fcntl(file.fd.get(), F_GETFL) & ~O_NONBLOCK);
  std::shared_ptr<const KeptFile> kept(new KeptFile(std::move(file)),
                                       [&slow = slow_](const KeptFile* last) { slow.run([last] { delete last; }); });
  Files::node_type gone;
  bool begin_looking = false;
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    gone = files_.extract(entry);  // two readers may have opened it at the same time
    if (files_.size() == kKeptFilesMax) gone = files_.extract(oldest());
    files_[entry] = {std::move(kept), ++clock_};
    begin_looking = !std::exchange(looks_, true);
  }
  if (begin_looking) look_later();
}

KeptFiles::Files::iterator KeptFiles::oldest() {
  return std::min_element(files_.begin(), files_.end(),
                          [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
}

void KeptFiles::let_go(EntryId entry) {
  Files::node_type gone;
  MutexLock lock(mutex_);
  gone = files_.extract(entry);
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
