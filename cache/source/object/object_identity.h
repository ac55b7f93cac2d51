// SPDX-License-Identifier: Apache-2.0
// An object's version as the identity of a file: its ETag, its size and when it was last modified.
//
//   io::ScannedAttributes file = attributes_of_object({.etag = "d41d8cd98f00b204e9800998ecf8427e", .size_bytes = 0});
//   std::string etag = etag_of(identity_of(file));   // the same again
//
// Most ETags are an MD5, or that of the parts of an upload and their number. Such a one lies in the 16 bytes of change
// time and inode, which an object does not have, and comes out as it went in: so it needs no room beside the catalog,
// and a GET can ask for this version and no other (If-Match). Of any other ETag these 16 bytes are a hash. It tells
// versions apart all the same, when the answer to a GET names its ETag.
//
// Where a store names no ETag, or a weak one, size and time tell versions apart: the answer's Last-Modified is
// compared, and one whose second is not over yet is asked for again (object_attempt.h). Where it names no time either,
// nothing is read.
//
// The times of objects are whole seconds in HTTP. What is below a second in the modification time says which kind of
// ETag it is.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headrace/cache/catalog.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {

struct ObjectVersion {
  std::string_view etag;  // without its quotes
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
};

// What an ETag says of the bytes, without its quotes. Nothing, if it is a weak one (RFC 9110, 8.8.1): other bytes may
// have the same.
[[nodiscard]] std::string_view strong_etag(std::string_view text);
// Of a file that all may read, owned by whoever runs this process.
[[nodiscard]] io::ScannedAttributes attributes_of_object(const ObjectVersion& version);
// Empty: the identity has a hash of it.
[[nodiscard]] std::string etag_of(const Identity& identity);
// In whole seconds; 0: not known.
[[nodiscard]] std::int64_t written_at(const Identity& identity);
// Whether it is the ETag that the identity was made of. Other than a comparison of identities this leaves out the time:
// content that was uploaded again is the same content.
[[nodiscard]] bool has_etag(const Identity& identity, std::string_view etag);

}  // namespace headrace::cache
