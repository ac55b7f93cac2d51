// SPDX-License-Identifier: Apache-2.0
// What an object store and the token service answer in XML, read by expat.
//
//   HEADRACE_TRY(page, parse_list_page(body));
//   const StoreError error = parse_error(body);   // empty where the body is no error of a store
//
// An answer needs no document type. One that has it is refused, and with it all entities: no bomb can be built.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/object_store.h"
#include "headrace/io/result.h"

namespace headrace::cache {

struct ListPage {
  struct Item {
    std::string key;   // decoded; whole, with the prefix
    std::string etag;  // without the quotes
    std::uint64_t size_bytes = 0;
    std::int64_t mtime_ns = 0;
  };
  std::vector<Item> objects;
  std::vector<std::string> folders;  // CommonPrefixes, each ends in '/'
  std::string next;                  // NextContinuationToken; empty: this was the last page
};

// Errors: kCorrupt (no XML, not a listing, cut off, a page that says it is not the last one and names no next).
[[nodiscard]] io::Result<ListPage> parse_list_page(std::string_view body);

struct StoreError {
  std::string code;     // "NoSuchKey"
  std::string message;  // for people
  std::string region;   // where the bucket lies, in some errors
};
[[nodiscard]] StoreError parse_error(std::string_view body);

struct TokenAnswer {
  AccessKeys keys;
  std::string expiration;  // 2013-05-24T00:00:00Z
};
// Of AssumeRole and AssumeRoleWithWebIdentity. Errors: kCorrupt.
[[nodiscard]] io::Result<TokenAnswer> parse_token_answer(std::string_view body);

// 2013-05-24T00:00:00.000Z, in nanoseconds since 1970; -1: it is none.
[[nodiscard]] std::int64_t parse_iso_time(std::string_view text);

}  // namespace headrace::cache
