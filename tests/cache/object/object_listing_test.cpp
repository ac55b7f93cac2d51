// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_listing.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/source/object/object_client.h"

#include "object_server.h"

namespace object_listing_test {
namespace {

using headrace::cache::list_objects;
using headrace::cache::ListedObject;
using headrace::cache::ListOptions;
using headrace::cache::ObjectClient;
using headrace::cache::ObjectListing;
using headrace::cache::ObjectStoreOptions;
using headrace::io::ErrorCode;
using headrace::test::ObjectServer;

std::unique_ptr<ObjectClient> open(const ObjectStoreOptions& options) {
  auto client = ObjectClient::open(options);
  REQUIRE(client.has_value());
  return std::move(*client);
}

ObjectListing list(const ObjectStoreOptions& options, const ListOptions& how = {}) {
  const auto client = open(options);
  auto listing = list_objects(*client, how);
  REQUIRE_MESSAGE(listing.has_value(), (listing ? "" : listing.error().message()));
  return std::move(*listing);
}

std::vector<std::string> keys_of(const ObjectListing& listing) {
  std::vector<std::string> keys;
  for (const ListedObject& object : listing.objects) {
    keys.emplace_back(std::string(listing.key(object)) + (object.is_folder ? "/" : ""));
  }
  return keys;
}

std::vector<std::string> sorted(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

TEST_CASE("a tree of folders is listed, whole and sorted, with sizes and ETags") {
  ObjectServer server;
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back(fmt::format("train/c{}/s{}/{}.jpg", i % 20, i % 3, i));
  server.put_all(keys);
  server.put_all({"other/x", "train", "train.txt"});
  server.set(R"({"page": 10})");
  ObjectStoreOptions options = server.options();
  options.prefix = "train/";
  std::uint64_t last = 0;
  const ObjectListing listing = list(options, {.on_progress = [&](std::uint64_t objects) { last = objects; }});
  for (std::string& key : keys) key = key.substr(6);
  CHECK(keys_of(listing) == sorted(keys));
  CHECK(last == 2000);
  const ListedObject& first = listing.objects.front();
  CHECK(first.size_bytes == 6 + listing.key(first).size());  // its content is its whole key
  CHECK(listing.etag(first).size() == 32);
  CHECK(first.mtime_ns == 1'735'689'600'000'000'000);
  CHECK(server.count("HEAD") == 0);
  CHECK(server.count("GET") == server.count("LIST"));
  const auto client = open(options);
  const auto below = list_objects(*client, {.below = "c1/s1/"});
  REQUIRE(below.has_value());
  CHECK(below->objects.size() == static_cast<std::size_t>(std::count_if(keys.begin(), keys.end(), [](const auto& key) {
          return key.starts_with("c1/s1/");
        })));
}

TEST_CASE("a flat folder of many keys is listed in parts, and no key is lost") {
  std::minstd_rand random(20250101);
  std::vector<std::string> keys;
  SUBCASE("numbers") {
    for (int i = 0; i < 2000; ++i) keys.push_back(fmt::format("img_{:08}.jpg", i * 3));
  }
  SUBCASE("hashes") {
    for (int i = 0; i < 2000; ++i) keys.push_back(fmt::format("{:08x}{:08x}", random(), random()));
  }
  SUBCASE("odd names") {
    const std::vector<std::string> pieces = {"a",  " ", "+", "%", "=", "~", "\xc3\xa4", "\xe6\x97\xa5",
                                             "\n", "&", "<", "z", "."};
    for (int i = 0; i < 2000; ++i) {
      std::string key = "x";
      for (auto n = 1 + random() % 12; n > 0; --n) key += pieces[random() % pieces.size()];
      keys.push_back(key + std::to_string(i));
    }
  }
  SUBCASE("half of them in folders") {
    for (int i = 0; i < 1000; ++i) {
      keys.push_back(fmt::format("k{:04}", i));
      keys.push_back(fmt::format("k{:04}-d/f", i));
    }
  }
  ObjectServer server;
  server.put_all(keys);
  server.set(R"({"page": 20})");
  const ObjectListing listing = list(server.options());
  CHECK(keys_of(listing) == sorted(keys));
  CHECK(listing.skipped == 0);
  CHECK(listing.shadowed == 0);
}

TEST_CASE("a folder is asked for in parts at the same time") {
  ObjectServer server;
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back(fmt::format("{:06}", i));
  server.put_all(keys);
  server.set(R"({"page": 20, "list_delay": 0.02})");
  const auto client = open(server.options());
  std::atomic<unsigned> most = 0;
  std::atomic<bool> over = false;
  std::thread watch([&] {
    while (!over.load()) most.store(std::max(most.load(), client->stats().in_flight));
  });
  const auto listing = list_objects(*client, {});
  over.store(true);
  watch.join();
  REQUIRE(listing.has_value());
  CHECK(listing->objects.size() == 2000);
  CHECK(most.load() > 4);
  CHECK(most.load() <= 32);
  CHECK(server.count("LIST") < 2 * 100);  // pages; what the cuts found empty is no more than that
}

TEST_CASE("no key is lost where a store lists in another order than that of bytes, and it shows late") {
  ObjectServer server;
  std::vector<std::string> keys;
  for (int i = 0; i < 400; ++i) keys.push_back(fmt::format("a{:03}", i));
  SUBCASE("within a page") {
    for (const char letter : {'b', 'c', 'd'}) {
      for (int i = 0; i < 30; ++i) {
        keys.push_back(fmt::format("{}{:02}", letter, i));
        keys.push_back(fmt::format("{}{:02}x", static_cast<char>(letter - 'a' + 'A'), i));
      }
    }
  }
  SUBCASE("from one page to the next") {
    for (const char letter : {'b', 'C', 'd', 'E', 'f', 'G'}) {
      for (int i = 0; i < 20; ++i) keys.push_back(fmt::format("{}{:02}", letter, i));
    }
  }
  server.put_all(keys);
  server.set(R"({"page": 20, "caseless": true})");
  CHECK(keys_of(list(server.options())) == sorted(keys));
}

TEST_CASE("names that no file system can show are left out and counted") {
  ObjectServer server;
  const std::string long_name(256, 'n');
  server.put_all({"a", "a/b", "c//d", "c/./e", "../f", "g/..", long_name, "h/" + std::string(255, 'n'), "empty/",
                  std::string("nul") + '\0' + "x", "i/", "i/j"});
  const ObjectListing listing = list(server.options());
  CHECK(keys_of(listing) == std::vector<std::string>{"a/b", "empty/", "h/" + std::string(255, 'n'), "i/", "i/j"});
  CHECK_MESSAGE(listing.skipped == 6, fmt::format("{}", fmt::join(listing.skipped_names, " ")));
  CHECK(listing.shadowed == 1);
  CHECK(listing.skipped_names.size() == 7);
}

TEST_CASE("folders in folders without an end are left out") {
  ObjectServer server;
  server.set(R"({"endless": true})");
  const ObjectListing listing = list(server.options());
  CHECK(listing.skipped == 1);
  CHECK(server.count("LIST") == 513);  // 1 024 bytes, two a folder
}

TEST_CASE("a page without a key is not the last one") {
  ObjectServer server;
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(fmt::format("{}", i));
  server.put_all(keys);
  server.set(R"({"page": 10, "empty_pages": 5})");
  CHECK(keys_of(list(server.options())) == sorted(keys));
  server.set(R"({"empty_pages": 1000000})");
  const auto client = open(server.options());
  const auto endless = list_objects(*client, {});
  REQUIRE_FALSE(endless.has_value());
  CHECK(endless.error().code == ErrorCode::kCorrupt);
}

TEST_CASE("a listing under faults is whole") {
  ObjectServer server;
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back(fmt::format("c{}/{}.jpg", i % 50, i));
  server.put_all(keys);
  server.set(R"({"page": 7, "all_busy": 10})");
  CHECK(keys_of(list(server.options())) == sorted(keys));
}

TEST_CASE("a listing that may not be had, is nonsense, or is stopped is an error that says so") {
  ObjectServer server;
  server.put_all({"a", "b/c"});
  const auto client = open(server.options());
  server.set(R"({"deny_list": true})");
  auto refused = list_objects(*client, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kPermission);
  CHECK(refused.error().message().find("s3:ListBucket") != std::string::npos);
  server.set(R"({"deny_list": false, "raw_list": "<html></html>"})");
  auto nonsense = list_objects(*client, {});
  REQUIRE_FALSE(nonsense.has_value());
  CHECK(nonsense.error().code == ErrorCode::kCorrupt);
  // A page that is its own next one.
  server.set(R"({"raw_list": "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x)"
             R"(</NextContinuationToken><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"})");
  auto circle = list_objects(*client, {});
  REQUIRE_FALSE(circle.has_value());
  CHECK(circle.error().code == ErrorCode::kCorrupt);
  server.set(R"({"raw_list": "", "list_delay": 3600})");
  std::atomic<bool> stop = false;
  std::thread stopper([&] {
    while (server.count("LIST") < 3 + 1) std::this_thread::yield();
    stop.store(true);
  });
  auto stopped = list_objects(*client, {.stop = &stop});
  stopper.join();
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code == ErrorCode::kCancelled);
  auto empty_prefix = server.options();
  empty_prefix.prefix = "nothing/";
  server.set(R"({"list_delay": 0})");
  CHECK(list(empty_prefix).objects.empty());
}

TEST_CASE("a listing without an end ends where its memory does, and says so") {
  ObjectServer server;
  SUBCASE("keys") {
    server.set(R"({"endless_keys": true})");
  }
  SUBCASE("folders") {
    server.set(R"({"wide": 100})");
  }
  const auto client = open(server.options());
  const auto listing = list_objects(*client, {.bytes_max = 100'000});
  REQUIRE_FALSE(listing.has_value());
  CHECK(listing.error().code == ErrorCode::kNoSpace);
  CHECK(listing.error().message().find("name a prefix with fewer") != std::string::npos);
}

TEST_CASE("a listing that was made to do harm is refused in a short line") {
  ObjectServer server;
  auto options = server.options();
  options.prefix = "p/";
  const auto set = [&](const std::string& inside, const std::string& before = "") {
    server.set(nlohmann::json{{"raw_list", before + "<ListBucketResult>" + inside + "</ListBucketResult>"}}.dump());
  };
  const auto refusal = [&] {
    const auto client = open(options);
    const auto listing = list_objects(*client, {});
    REQUIRE_FALSE(listing.has_value());
    CHECK(listing.error().code == ErrorCode::kCorrupt);
    CHECK(listing.error().message().size() < 1000);
  };
  const std::string large(3 << 20, 'k');
  set("<Contents><Key>p/" + large + "</Key><Size>1</Size></Contents>");
  const ObjectListing listing = list(options);
  CHECK(listing.objects.empty());
  CHECK(listing.skipped == 1);
  CHECK(listing.skipped_names.front().size() < 1000);
  set("<Contents><Key>" + large + "</Key><Size>1</Size></Contents>");  // not below the prefix
  refusal();
  set("<IsTruncated>true</IsTruncated><NextContinuationToken>" + large +
      "</NextContinuationToken>"
      "<Contents><Key>p/a</Key><Size>1</Size></Contents>");
  refusal();
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  set(deep);
  refusal();
  std::string laughs = "<!ENTITY l0 \"ha\">";
  for (int i = 1; i < 10; ++i) {
    laughs += fmt::format("<!ENTITY l{} \"", i);
    for (int k = 0; k < 10; ++k) laughs += fmt::format("&l{};", i - 1);
    laughs += "\">";
  }
  set("<Contents><Key>p/&l9;</Key><Size>1</Size></Contents>", "<!DOCTYPE x [" + laughs + "]>");
  refusal();
}

}  // namespace object_listing_test
