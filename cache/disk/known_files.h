// SPDX-License-Identifier: Apache-2.0
// Which versions of files a data set has. A record of any other one is of no use: nobody will ask for it again.
//
//   KnownFiles known(catalog.entry_count());
//   known.add(hash_identity(catalog.identity(entry)));
//   if (!known.may_have(record.identity_hash)) make_room();
//
// Of each version a bit in a table is set, which has 16 a file. So of what is gone one record in 16 is taken for one that is
// there, which costs some room; never the other way round.
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
  [[nodiscard]] bool may_have(std::uint64_t identity_hash) const;

 private:
  std::vector<std::atomic<std::uint64_t>> words_;
};

}  // namespace headrace::cache
