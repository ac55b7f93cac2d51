// SPDX-License-Identifier: Apache-2.0
// All objects below a prefix, as a file system can show them.
//
//   HEADRACE_TRY(listing, list_objects(client, {}));
//   for (const ListedObject& object : listing.objects) add(listing.key(object), object.size_bytes);
//
// Folders are walked in parallel with `delimiter=/`, one page of 1 000 keys a request. A folder that is not at its end
// after 8 pages is cut into ranges of keys (`start-after`), which are listed in parallel too: the pages of one range
// can only be asked for one after the other. No object is asked for by itself.
//
// Thread-safety: list_objects() blocks its caller, never the client's thread; the result is a plain value.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cache {

class ObjectClient;

struct ListedObject {
  std::uint64_t key_offset = 0;
  std::uint64_t etag_offset = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;     // Last-Modified; whole seconds or milliseconds
  std::uint16_t key_bytes = 0;   // at most 1 024 in S3
  std::uint16_t etag_bytes = 0;  // without the quotes
  bool is_folder = false;        // an object whose key ends in '/': somebody made an empty folder
};

struct ObjectListing {
  std::vector<ListedObject> objects;  // sorted by the bytes of their keys, no key twice
  std::string keys;                   // relative to the prefix; of a folder without the '/' at its end
  std::string etags;
  // Names that no file system can show: with NUL, with '.', '..' or nothing between two '/', longer than 255 bytes,
  // or in keys longer than 1 024 bytes.
  std::uint64_t skipped = 0;
  // Objects of which there is a folder of the same name: the folder wins.
  std::uint64_t shadowed = 0;
  std::vector<std::string> skipped_names;  // the first 10 of both, printable

  [[nodiscard]] std::string_view key(const ListedObject& object) const {
    return std::string_view(keys).substr(object.key_offset, object.key_bytes);
  }
  [[nodiscard]] std::string_view etag(const ListedObject& object) const {
    return std::string_view(etags).substr(object.etag_offset, object.etag_bytes);
  }
};

struct ListOptions {
  std::string below = {};       // a folder relative to the client's prefix, ends in '/'; empty: all of the prefix
  unsigned in_flight_max = 32;  // list requests; S3 slows down beyond a few hundred a second per prefix
  // What the listing may take in memory; 0: a quarter of what this process may have. A listing without an end
  // ends there.
  std::uint64_t bytes_max = 0;
  const std::atomic<bool>* stop = nullptr;                      // another thread sets it: kCancelled within 100 ms
  std::function<void(std::uint64_t objects)> on_progress = {};  // on the caller's thread, after each page
};

// Errors: kNotFound (no such bucket), kPermission (may not list it: the line names the right that is missing),
// kCancelled, kCorrupt (no listing, or one that goes in a circle), kNoSpace (`bytes_max`), and what the client's
// requests end with. A prefix without objects is an empty listing, no error.
[[nodiscard]] io::Result<ObjectListing> list_objects(ObjectClient& client, const ListOptions& options);

}  // namespace headrace::cache
