// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/renewal.h"

#include <algorithm>
#include <string>

#include "headrace/cache/same_entries.h"

namespace headrace::fuse {
using cache::Catalog;
using cache::EntryId;
using cache::SampleIndex;

Result<Renewal> Renewal::prepare(Channel& channel, const Catalog& before, const Takeover& takeover,
                                 const Catalog& now) {
  HEADRACE_TRY(memory, channel.make_next(now, takeover_bytes(now)));
  Renewal renewal(before, takeover, now, takeover_in(memory, now));
  HEADRACE_TRY_DO(renewal.number());
  renewal.to_.head->catalog_fingerprint = fingerprint_of(now);
  return renewal;
}

// A number is given out once, also where its name goes and comes again: the kernel may know what it stood for.
Status Renewal::number() {
  const bool is_first = from_.head->name_numbers_end == 0;
  std::uint64_t next = is_first ? std::uint64_t{before_.entry_count()} + 1 : from_.head->name_numbers_end;
  for (EntryId entry = 0; entry < now_.entry_count(); ++entry) {
    const EntryId was = same_[entry];
    if (was == cache::kNoEntry) {
      to_.numbers[entry] = static_cast<NameNumber>(next++);
    } else {
      to_.numbers[entry] = is_first ? was + 1 : from_.numbers[was];
    }
  }
  if (next > UINT32_MAX)
    return io::make_error(io::ErrorCode::kUnsupported, "a mount that had 2^32 names; mount it anew");
  to_.head->name_numbers_end = static_cast<std::uint32_t>(next);
  return {};
}

void Renewal::finish(const ChangedFiles& known, const Inodes& inodes, RenewedNames renewed, bool is_read) {
  translate_files(known, inodes);
  translate_pages();
  to_.head->takeovers = from_.head->takeovers;
  to_.head->set = from_.head->set;
  to_.head->epoch = from_.head->epoch;
  to_.head->position = from_.head->position;
  to_.head->follows_before = is_read;
  to_.head->renewed = renewed;
  to_.head->is_untold = true;
}

// The new catalog has each file as it is now. That is another version than the kernel was shown where nobody has told
// the store of it yet.
void Renewal::translate_files(const ChangedFiles& known, const Inodes& inodes) {
  ChangedFiles translated(now_, to_.changed, to_.head->changed_count);
  for (EntryId entry = 0; entry < now_.entry_count(); ++entry) {
    const EntryId was = same_[entry];
    if (was == cache::kNoEntry || !now_.is_file(entry)) continue;
    const std::uint64_t inode = inodes.of(was);
    const bool is_another = known.has_vanished(was) || !inodes.stands_for(inode, now_.identity(entry));
    const std::uint32_t version = version_of(inode) + (is_another ? 1 : 0);
    if (version > 0) translated.begin_with(entry, version, now_.identity(entry));
  }
}

void Renewal::translate_pages() {
  for (SampleIndex sample = 0; sample < now_.sample_count(); ++sample) {
    const EntryId was = same_[now_.sample_entry(sample)];
    if (was == cache::kNoEntry) continue;
    if (const auto number = before_.sample_of(was)) to_.pages[sample] = from_.pages[*number];
  }
}

namespace {

// Of folders that both catalogs have. What lies in others the kernel forgets with them, or cannot know.
class NameTelling {
 public:
  NameTelling(const Catalog& before, const Catalog& now, const Inodes& inodes, Session& session)
      : before_(before), now_(now), inodes_(inodes), session_(session), same_(cache::same_entries(before, now)) {}

  void run() {
    for (EntryId directory = 0; directory < now_.entry_count(); ++directory) {
      if (now_.is_directory(directory) && same_[directory] != cache::kNoEntry) tell_of(directory);
    }
  }

 private:
  // Its listing is content of a folder, to the kernel, and goes with that.
  void tell_of(EntryId directory) {
    const EntryId was = same_[directory];
    const Catalog::Range are = now_.children(directory);
    std::size_t others = 0;
    std::vector<bool> stays(before_.children(was).count, false);
    for (EntryId child = are.first; child < are.first + are.count; ++child) {
      if (same_[child] != cache::kNoEntry) {
        stays[same_[child] - before_.children(was).first] = true;
      } else {
        forget(directory, now_.name(child));  // somebody may have looked for it before it was there
        ++others;
      }
    }
    for (std::size_t child = 0; child < stays.size(); ++child) {
      if (stays[child]) continue;
      forget(directory, before_.name(before_.children(was).first + static_cast<EntryId>(child)));
      ++others;
    }
    const bool is_other = now_.identity(directory) != before_.identity(was);
    if (others == 0 && !is_other && now_.attributes(directory) == before_.attributes(was)) return;
    [[maybe_unused]] const int unknown = session_.invalidate(inodes_.of(directory));  // ENOENT: no need to
  }

  void forget(EntryId directory, std::string_view name) {
    [[maybe_unused]] const int unknown = session_.invalidate_name(inodes_.of(directory), std::string(name));
  }

  const Catalog& before_;
  const Catalog& now_;
  const Inodes& inodes_;
  Session& session_;
  const std::vector<EntryId> same_;
};

}  // namespace

void tell_names(const Catalog& before, const Catalog& now, const Inodes& inodes, Session& session) {
  NameTelling(before, now, inodes, session).run();
}

}  // namespace headrace::fuse
