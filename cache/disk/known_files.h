// SPDX-License-Identifier: Apache-2.0
// Which versions of files a data set has. A record of any other one is of no use: nobody will ask for it again.
//
//   KnownFiles known(catalog.entry_count());
//   known.add(hash_identity(catalog.identity(entry)));
//   if (!known.may_have(record.identity_hash)) make_room();
//
// Of each version a bit in a table is set, which has 16 a file. So of what is gone one record in 16 is taken for one
// of use, which costs some room. Forgetting a version may forget another one with it; what is forgotten by mistake
// makes room before what is not, and is fetched again.
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::cache {

class KnownFiles {
 public:
  explicit KnownFiles(std::size_t files);
  void add(std::uint64_t identity_hash);
  // The file is another one by now, or gone.
  void forget(std::uint64_t identity_hash);
  [[nodiscard]] bool may_have(std::uint64_t identity_hash) const;
  // Rises whenever may_have() answers otherwise than before for some version.
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::atomic<std::uint64_t>& word_of(std::uint64_t identity_hash) {
    return words_[identity_hash / kWordBits % words_.size()];
  }

  static constexpr std::size_t kWordBits = 64;
  std::vector<std::atomic<std::uint64_t>> words_;
  std::atomic<std::uint64_t> changes_ = 0;
};

}  // namespace headrace::cache
