// SPDX-License-Identifier: Apache-2.0
// How a mount goes on with another catalog, because its source has other names: what the successor needs is translated
// from the entries and samples of the catalog before, and becomes the channel's next generation. A name keeps its inode
// number, so that who has it open goes on, and new names get new ones.
//
//   HEADRACE_TRY(renewal, Renewal::prepare(channel, before, takeover, now));   // takes a while
//   renewal.finish(known, inodes, renewed, false);   // while nothing changes any more, of files or of pages
//   channel.begin_next();                      // the process ends after this, and its successor:
//   tell_names(before, now, inodes, session);
//
// Thread-safety: none. Ownership: the channel, the catalogs and the takeover outlive it.
#pragma once

#include <vector>

#include "headrace/cache/same_entries.h"
#include "headrace/fuse/kernel/session.h"
#include "headrace/fuse/survive/takeover.h"

namespace headrace::fuse {

class Renewal {
 public:
  // Errors: kSystem (no memory, or no room where catalogs are kept), kUnsupported (no numbers are left).
  [[nodiscard]] static Result<Renewal> prepare(Channel& channel, const cache::Catalog& before, const Takeover& takeover,
                                               const cache::Catalog& now);
  // `known`: of the catalog before. `inodes`: likewise.
  // `is_read`: somebody is in the middle of an order over the samples of the catalog before.
  void finish(const ChangedFiles& known, const Inodes& inodes, RenewedNames renewed, bool is_read);

 private:
  Renewal(const cache::Catalog& before, const Takeover& from, const cache::Catalog& now, Takeover to)
      : before_(before), from_(from), now_(now), to_(to), same_(cache::same_entries(before, now)) {}
  [[nodiscard]] Status number();
  void translate_files(const ChangedFiles& known, const Inodes& inodes);
  void translate_pages();

  const cache::Catalog& before_;
  const Takeover from_;
  const cache::Catalog& now_;
  const Takeover to_;
  const std::vector<cache::EntryId> same_;
};

// The kernel forgets which names the folders had and had not, where they are others. Waits for who looks into such a
// folder just now; somebody must answer meanwhile.
void tell_names(const cache::Catalog& before, const cache::Catalog& now, const Inodes& inodes, Session& session);

}  // namespace headrace::fuse
