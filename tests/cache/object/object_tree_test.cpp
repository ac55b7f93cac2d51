// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_tree.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/source/object/object_identity.h"

namespace object_tree_test {
namespace {

using headrace::cache::attributes_of_object;
using headrace::cache::Catalog;
using headrace::cache::EntryId;
using headrace::cache::etag_of;
using headrace::cache::has_etag;
using headrace::cache::Identity;
using headrace::cache::identity_of;
using headrace::cache::ListedObject;
using headrace::cache::ObjectListing;

constexpr const char* kMd5 = "0123456789abcdeffedcba9876543210";

Identity version(std::string_view etag, std::uint64_t size = 5, std::int64_t mtime_ns = 1'700'000'000'123'000'000) {
  return identity_of(attributes_of_object({.etag = etag, .size_bytes = size, .mtime_ns = mtime_ns}));
}

// As list_objects() makes it: sorted by the keys, folders without the '/' at their end.
ObjectListing listing_of(std::vector<std::string> keys) {
  ObjectListing listing;
  std::sort(keys.begin(), keys.end(), [](const std::string& a, const std::string& b) {
    return a.substr(0, a.size() - (a.ends_with('/') ? 1 : 0)) < b.substr(0, b.size() - (b.ends_with('/') ? 1 : 0));
  });
  for (std::string& key : keys) {
    ListedObject object;
    object.is_folder = key.ends_with('/');
    if (object.is_folder) key.pop_back();
    object.key_offset = listing.keys.size();
    object.key_bytes = static_cast<std::uint16_t>(key.size());
    object.etag_offset = listing.etags.size();
    object.etag_bytes = 32;
    object.size_bytes = key.size();
    object.mtime_ns = 1'700'000'000'000'000'000;
    listing.keys += key;
    listing.etags += kMd5;
    listing.objects.push_back(object);
  }
  return listing;
}

void collect(const Catalog& catalog, EntryId directory, std::vector<std::string>& paths) {
  const Catalog::Range children = catalog.children(directory);
  for (EntryId child = children.first; child < children.first + children.count; ++child) {
    paths.push_back(catalog.path(child) + (catalog.is_directory(child) ? "/" : ""));
    if (catalog.is_directory(child)) collect(catalog, child, paths);
  }
}

std::vector<std::string> paths_of(const std::vector<std::string>& keys) {
  auto catalog = headrace::cache::build_catalog(tree_of(listing_of(keys)), {}, "");
  REQUIRE(catalog);
  std::vector<std::string> paths;
  collect(*catalog, headrace::cache::kRootEntry, paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("an ETag that is an MD5 comes out of the identity as it went in, with the number of parts") {
  for (const std::string& etag : {std::string(kMd5), std::string(kMd5) + "-1", std::string(kMd5) + "-10000",
                                  std::string(kMd5) + "-99999", std::string(32, '0'), std::string(32, 'f')}) {
    CAPTURE(etag);
    CHECK(etag_of(version(etag)) == etag);
    CHECK(has_etag(version(etag), etag));
    CHECK_FALSE(has_etag(version(etag), etag + "2"));
    CHECK_FALSE(has_etag(version(etag), std::string(kMd5) + "-2"));
  }
}

TEST_CASE("any other ETag is told from others, but does not come out of the identity") {
  const std::vector<std::string> others = {"",
                                           "x",
                                           "CKih16GjycICEAE=",
                                           "0123456789ABCDEFFEDCBA9876543210",
                                           std::string(kMd5) + "-0",
                                           std::string(kMd5) + "-",
                                           std::string(kMd5) + "-01",
                                           std::string(kMd5) + "-100000",
                                           std::string(kMd5) + "-99999999999999999999",
                                           std::string(kMd5) + "-1x",
                                           std::string(kMd5) + "+1",
                                           std::string(kMd5) + "0",
                                           std::string(31, '0')};
  for (const std::string& etag : others) {
    CAPTURE(etag);
    CHECK(etag_of(version(etag)).empty());
    for (const std::string& other : others) CHECK(has_etag(version(etag), other) == (etag == other));
    CHECK_FALSE(has_etag(version(etag), kMd5));
    CHECK_FALSE(has_etag(version(kMd5), etag));
  }
}

TEST_CASE("versions of an object differ by ETag, size and second - what a listing says below a second does not count") {
  CHECK(version(kMd5) == version(kMd5));
  CHECK(version(kMd5) != version(std::string(kMd5) + "-2"));
  CHECK(version(kMd5) != version("1123456789abcdeffedcba9876543210"));
  CHECK(version(kMd5) != version("0123456789abcdeffedcba9876543211"));
  CHECK(version(kMd5) != version(kMd5, 6));
  CHECK(version(kMd5, 5, 1'000'000'000) != version(kMd5, 5, 2'000'000'000));
  CHECK(version(kMd5, 5, 1'000'000'000) == version(kMd5, 5, 1'999'999'999));
  CHECK(etag_of(version(kMd5, 5, INT64_MIN)) == kMd5);
  CHECK(etag_of(version(kMd5, 5, INT64_MAX)) == kMd5);
}

TEST_CASE("the keys of objects make folders") {
  CHECK(paths_of({}).empty());
  CHECK(paths_of({"a"}) == std::vector<std::string>{"a"});
  CHECK(paths_of({"a/b/c", "a/b/d", "a/e", "f"}) ==
        std::vector<std::string>{"a/", "a/b/", "a/b/c", "a/b/d", "a/e", "f"});
}

TEST_CASE("a name that sorts between a folder and what is in it makes no second folder") {
  CHECK(paths_of({"a/", "a-b", "a/x", "a.b/y", "a/z"}) ==
        std::vector<std::string>{"a-b", "a.b/", "a.b/y", "a/", "a/x", "a/z"});
}

TEST_CASE("an empty folder stays, with the folders above it") {
  CHECK(paths_of({"a/b/", "c"}) == std::vector<std::string>{"a/", "a/b/", "c"});
}

TEST_CASE("an object is shown as a file that all may read and nobody may write") {
  const auto catalog = headrace::cache::build_catalog(tree_of(listing_of({"a/one.jpg"})), {}, "");
  REQUIRE(catalog);
  const auto file = catalog->find("a/one.jpg");
  REQUIRE(file);
  CHECK(catalog->attributes(*file).mode == (S_IFREG | 0444));
  CHECK(catalog->attributes(headrace::cache::kRootEntry).mode == (S_IFDIR | 0555));
  CHECK(catalog->size_bytes(*file) == 9);
  CHECK(catalog->identity(*file).mtime_ns == 1'700'000'000'000'000'000);
  CHECK(etag_of(catalog->identity(*file)) == kMd5);
  CHECK(catalog->sample_count() == 1);
}

TEST_CASE("what no file system can show is counted") {
  ObjectListing listing = listing_of({"a"});
  listing.skipped = 3;
  listing.shadowed = 2;
  CHECK(tree_of(listing).skipped == 5);
}

}  // namespace object_tree_test
