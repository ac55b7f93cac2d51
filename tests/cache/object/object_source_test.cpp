// SPDX-License-Identifier: Apache-2.0
// A Store whose source is a bucket.
#include "headrace/cache/source/object/object_source.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/order.h"
#include "headrace/cache/reader.h"
#include "headrace/cache/refresher.h"
#include "headrace/cache/source/object/object_identity.h"
#include "headrace/cache/store.h"
#include "headrace/io/buffer.h"

#include "object_server.h"
#include "support/temp_dir.h"

namespace object_source_test {
namespace {

using headrace::cache::attributes_of_object;
using headrace::cache::CatalogChanges;
using headrace::cache::EntryId;
using headrace::cache::identity_of;
using headrace::cache::ObjectClient;
using headrace::cache::ObjectSource;
using headrace::cache::ObjectTree;
using headrace::cache::ReadHint;
using headrace::cache::SourceRead;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::View;
using headrace::io::Buffer;
using headrace::io::ErrorCode;
using headrace::io::Result;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::ObjectServer;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::size_t kLarge = std::size_t{9} << 20;  // three chunks

std::string content(std::size_t bytes, std::uint64_t seed) {
  return std::string(as_text(pattern_bytes(bytes, seed)));
}

std::string text_of(const Result<View>& view) {
  if (!view) return "error: " + view.error().message();
  return {reinterpret_cast<const char*>(view->bytes().data()), view->bytes().size()};
}

struct Bucket {
  ObjectServer server;
  std::unique_ptr<Store> store;

  Bucket() {
    server.put("train/a/1.jpg", content(1000, 1));
    server.put("train/a/2.jpg", content(70'000, 2));
    server.put("train/b/large", content(kLarge, 3));
    server.put("train/empty", "");
    server.put("training/not.jpg", "not below the prefix");
  }

  [[nodiscard]] StoreOptions options() const {
    return {.source = "s3://bucket/train",
            .bucket = server.options(),
            .catalog = {.listing = headrace::cache::ListingRule::kSorted},
            .ram_bytes = 64 << 20};
  }
  void open() { open(options()); }
  void open(const StoreOptions& options) {
    store.reset();
    auto opened = Store::open(options);
    REQUIRE_MESSAGE(opened, opened.error().message());
    store = std::move(*opened);
  }
  [[nodiscard]] EntryId entry(std::string_view path) const {
    const auto found = store->catalog().find(path);
    REQUIRE(found);
    return *found;
  }
  // Past what the memory holds.
  [[nodiscard]] std::string read(std::string_view path) const {
    store->drop(entry(path));
    return text_of(store->read(entry(path)));
  }
};

}  // namespace

TEST_CASE("a Store reads a bucket: each object with one GET, large ones in chunks, and no HEAD") {
  Bucket bucket;
  StoreOptions options = bucket.options();
  options.bucket.tuning.hedge = false;  // no second request, however busy this machine is
  options.bucket.tuning.stall_timeout = std::chrono::hours(1);
  bucket.open(options);
  CHECK(bucket.store->catalog().sample_count() == 4);
  CHECK(bucket.read("a/1.jpg") == content(1000, 1));
  CHECK(bucket.read("a/2.jpg") == content(70'000, 2));
  CHECK(bucket.server.count("key train/a/1.jpg") == 1);
  CHECK(bucket.server.count("HEAD") == 0);
  CHECK(bucket.read("b/large") == content(kLarge, 3));
  CHECK(bucket.server.count("key train/b/large") == 3);
  CHECK(bucket.read("empty").empty());
  const auto source = bucket.store->stats().tiers.back();
  CHECK(source.kind == TierKind::kSource);
  CHECK(source.path == "s3://bucket/train");
  CHECK(source.state == "ok");
  CHECK(source.hits == 5);
  CHECK(source.hit_bytes == 71'000 + kLarge);
  REQUIRE(bucket.store->stats().bucket);
  CHECK(bucket.store->stats().bucket->requests > 5);
}

TEST_CASE("an object that was replaced is read as it is now, with one HEAD, and the listener is told first") {
  Bucket bucket;
  bucket.open();
  std::atomic<int> told = 0;
  bucket.store->set_change_listener(
      [&](const CatalogChanges& changes) { told += static_cast<int>(changes.changed.size()); });
  bucket.server.put("train/a/1.jpg", content(1000, 7));  // of the same size
  CHECK(bucket.read("a/1.jpg") == content(1000, 7));
  CHECK(told == 1);
  CHECK(bucket.server.count("HEAD") == 1);
  bucket.server.put("train/b/large", content(kLarge - 5, 8));
  CHECK(bucket.read("b/large") == content(kLarge - 5, 8));
  bucket.server.put("train/a/2.jpg", "");
  CHECK(bucket.read("a/2.jpg").empty());
}

TEST_CASE("what an object is now is known before its read ends as stale, so that nobody waits for it then") {
  const Bucket bucket;
  const auto options = bucket.server.options();
  auto client = ObjectClient::open(options);
  REQUIRE(client);
  const auto tree = std::make_shared<ObjectTree>(std::move(*client), false);
  ObjectSource source("s3://bucket", tree);
  struct Outcome {
    const ObjectServer& server;
    ObjectTree& tree;
    std::atomic<bool> ended = false;
    std::optional<ErrorCode> code = {};
    std::optional<std::uint64_t> size_seen = {};
  } outcome{bucket.server, *tree};
  SourceRead read;
  read.path = "train/a/1.jpg";
  read.range = {0, 1000};
  read.identity = identity_of(attributes_of_object({.etag = std::string(32, '0'), .size_bytes = 1000}));
  read.buffer = std::move(*Buffer::allocate(4096));
  read.context = &outcome;
  read.on_done = [](SourceRead& self, Status status) {
    auto& end = *static_cast<Outcome*>(self.context);
    if (!status) end.code = status.error().code;
    end.server.remove("train/a/1.jpg");
    if (const auto seen = end.tree.look_at("train/a/1.jpg")) end.size_seen = seen->size_bytes;
    end.ended = true;
    end.ended.notify_one();
  };
  source.read(read);
  outcome.ended.wait(false);
  CHECK(outcome.code == ErrorCode::kStale);
  CHECK(outcome.size_seen == 1000);
  source.settle();
  CHECK(tree->look_at("train/a/1.jpg").error().code == ErrorCode::kNotFound);
}

TEST_CASE("an object that is gone is not found") {
  Bucket bucket;
  bucket.open();
  bucket.server.remove("train/a/1.jpg");
  bucket.store->drop(bucket.entry("a/1.jpg"));
  const auto gone = bucket.store->read(bucket.entry("a/1.jpg"));
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == ErrorCode::kNotFound);
  CHECK(bucket.store->look_at(bucket.entry("a/1.jpg")).error().code == ErrorCode::kNotFound);
}

TEST_CASE("where the store's ETags cannot be asked for, the answer's own one decides") {
  Bucket bucket;
  bucket.server.set(R"({"wrong_etag": true})");  // its ETag is 0123, and its bytes are zeros
  bucket.open();
  CHECK(bucket.read("a/1.jpg") == std::string(1000, '\0'));  // what the store says it is now
  bucket.server.set(R"({"wrong_etag": false})");
  CHECK(bucket.read("a/1.jpg") == content(1000, 1));
  CHECK(bucket.store->stats().tiers.back().errors == 2);  // each time it was found to be another
}

TEST_CASE("where the store names no strong ETag, the time tells versions apart, and without one nothing is read") {
  Bucket bucket;
  SUBCASE("none") {
    bucket.server.set(R"({"etags": "none"})");
  }
  SUBCASE("weak ones") {
    bucket.server.set(R"({"etags": "weak"})");
  }
  bucket.open();
  CHECK(bucket.read("a/1.jpg") == content(1000, 1));
  CHECK(bucket.read("b/large") == content(kLarge, 3));
  bucket.server.put("train/a/1.jpg", content(1000, 9));  // as large as before
  bucket.server.set(R"({"last_modified": "Thu, 02 Jan 2025 00:00:00 GMT"})");
  CHECK(bucket.read("a/1.jpg") == content(1000, 9));
  CHECK(bucket.store->stats().tiers.back().errors == 1);  // found to be another
  bucket.server.set(R"({"last_modified": ""})");
  CHECK(bucket.read("a/2.jpg").find("neither a strong ETag nor Last-Modified") != std::string::npos);
}

TEST_CASE("a comparison lists the bucket and finds what changed, went and appeared") {
  Bucket bucket;
  bucket.open();
  const std::uint64_t lists = bucket.server.count("LIST");
  CHECK(bucket.store->find_changes({})->none());
  CHECK(bucket.server.count("LIST") > lists);
  bucket.server.put("train/a/1.jpg", content(1000, 7));
  bucket.server.remove("train/empty");
  bucket.server.put("train/c/new", "new");
  const auto changes = bucket.store->find_changes({});
  REQUIRE(changes);
  REQUIRE(changes->changed.size() == 1);
  CHECK(changes->changed[0].entry == bucket.entry("a/1.jpg"));
  REQUIRE(changes->vanished.size() == 1);
  CHECK(changes->vanished[0] == bucket.entry("empty"));
  CHECK(changes->appeared == 2);
  CHECK(bucket.server.count("HEAD") == 0);
  const auto names = bucket.store->find_changes({.next = headrace::cache::CatalogOptions{}});
  REQUIRE(names);
  REQUIRE(names->next != nullptr);
  CHECK(names->next->find("c/new").has_value());
  CHECK_FALSE(names->next->find("empty").has_value());
}

TEST_CASE("a disk tier holds what a bucket has, also after a restart, and not what was replaced meanwhile") {
  const TempDir folder;
  Bucket bucket;
  StoreOptions options = bucket.options();
  options.tiers = {{.kind = TierKind::kSsd, .path = folder.path() / "tier", .budget_bytes = 64 << 20}};
  bucket.open(options);
  for (const char* path : {"a/1.jpg", "a/2.jpg"}) {
    std::atomic<bool> warmed = false;
    bucket.store->warm(bucket.entry(path), [&](const auto& status) {
      CHECK(status);
      warmed = true;
      warmed.notify_one();
    });
    warmed.wait(false);
  }
  REQUIRE(bucket.store->flush());
  bucket.server.put("train/a/2.jpg", content(70'000, 9));
  bucket.open(options);
  CHECK(bucket.read("a/1.jpg") == content(1000, 1));
  CHECK(bucket.server.count("key train/a/1.jpg") == 1);
  CHECK(bucket.read("a/2.jpg") == content(70'000, 9));
}

TEST_CASE("a Store that ends ends the reads of its bucket") {
  Bucket bucket;
  bucket.open();
  bucket.server.set(R"({"delay": 3600.0})");
  std::atomic<int> cancelled = 0;
  for (const char* path : {"a/1.jpg", "a/2.jpg", "b/large"}) {
    bucket.store->read_async(
        bucket.entry(path),
        [&](const Result<View>& view) { cancelled += !view && view.error().code == ErrorCode::kCancelled ? 1 : 0; },
        ReadHint::kNow);
  }
  bucket.store.reset();
  CHECK(cancelled == 3);
}

TEST_CASE("who joins a read ahead that is late gets a second request for it") {
  Bucket bucket;
  StoreOptions options = bucket.options();
  options.bucket.tuning.stall_timeout = std::chrono::hours(1);
  bucket.open(options);
  bucket.server.set(R"({"stalls": 1, "stall_seconds": 3600})");
  std::promise<bool> came_ahead;  // after the one who joined has the bytes, or before
  bucket.store->read_async(
      bucket.entry("a/1.jpg"), [&](const Result<View>& view) { came_ahead.set_value(view.has_value()); },
      ReadHint::kAhead);
  while (bucket.server.count("stall") == 0) std::this_thread::yield();
  CHECK(bucket.store->stats().bucket->hedges == 0);
  CHECK(text_of(bucket.store->read(bucket.entry("a/1.jpg"))) == content(1000, 1));
  CHECK(came_ahead.get_future().get());
  CHECK(bucket.store->stats().bucket->hedges_won == 1);
}

TEST_CASE("a Reader that comes to a read ahead that is late gets a second request for it") {
  Bucket bucket;
  StoreOptions options = bucket.options();
  options.bucket.tuning.stall_timeout = std::chrono::hours(1);
  bucket.open(options);
  bucket.server.set(R"({"stalls": 1, "stall_seconds": 3600})");
  const auto order = headrace::cache::make_order("sequential", {.sample_count = 4, .find_sample = {}});
  REQUIRE(order);
  auto reader = headrace::cache::Reader::open(*bucket.store, **order, {});
  REQUIRE(reader);
  std::size_t bytes = 0;
  while (auto sample = (*reader)->next()) {
    REQUIRE(sample->bytes);
    bytes += sample->bytes->bytes().size();
  }
  CHECK(bytes == 1000 + 70'000 + kLarge);
  CHECK(bucket.store->stats().bucket->hedges_won == 1);
}

TEST_CASE("a Reader of a bucket reads far enough ahead that it does not wait for an answer that stalls") {
  ObjectServer server;
  constexpr std::uint64_t kObjects = 1600;
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < kObjects; ++i) keys.push_back("train/" + std::to_string(i));
  server.put_all(keys);
  const auto store = Store::open({.source = "s3://bucket/train",
                                  .bucket = server.options(),
                                  .catalog = {.listing = headrace::cache::ListingRule::kSorted},
                                  .ram_bytes = 6 << 20});
  REQUIRE(store);
  const auto order = headrace::cache::make_order("sequential", {.sample_count = kObjects, .find_sample = {}});
  REQUIRE(order);
  auto reader = headrace::cache::Reader::open(**store, **order, {});
  REQUIRE(reader);
  for (int i = 0; i < 1100; ++i) REQUIRE((*reader)->next());  // past what is resident
  // 384 pages are a quarter of the memory. On a busy machine the thread that asks for them may be behind for a moment.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((*reader)->state().ahead <= 300 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK((*reader)->state().ahead > 300);
}

TEST_CASE("a large bucket is shown as it was saved, without a listing, until one has found what changed") {
  const TempDir folder;
  Bucket bucket;
  std::vector<std::string> keys;
  for (int i = 0; i < 70; ++i) keys.push_back("train/many/" + std::to_string(i) + "/one");
  bucket.server.put_all(keys);
  StoreOptions options = bucket.options();
  options.catalog_file = folder.path() / "saved";
  options.catalog_may_be_old = true;
  bucket.open(options);
  CHECK_FALSE(bucket.store->catalog().was_saved());
  const std::uint64_t lists = bucket.server.count("LIST");
  bucket.open(options);
  CHECK(bucket.store->catalog().was_saved());
  CHECK(bucket.server.count("LIST") == lists);
  CHECK(bucket.read("many/69/one") == "train/many/69/one");
  bucket.server.put("train/many/69/two", "new");
  CHECK(bucket.store->find_changes({})->appeared == 1);
  bucket.open(options);
  CHECK(bucket.store->catalog().was_saved());
  CHECK(bucket.read("many/69/two") == "new");

  options.catalog_may_be_old = false;
  bucket.open(options);
  CHECK_FALSE(bucket.store->catalog().was_saved());
}

TEST_CASE("a bucket of few folders, and one of another store, are listed again") {
  const TempDir folder;
  Bucket bucket;
  StoreOptions options = bucket.options();
  options.catalog_file = folder.path() / "saved";
  options.catalog_may_be_old = true;
  bucket.open(options);
  bucket.server.put("train/new", "new");
  bucket.open(options);
  CHECK(bucket.read("new") == "new");

  std::vector<std::string> keys;
  for (int i = 0; i < 70; ++i) keys.push_back("train/many/" + std::to_string(i) + "/one");
  bucket.server.put_all(keys);
  bucket.open(options);
  const Bucket other;
  options.bucket = other.server.options();
  bucket.open(options);
  CHECK_FALSE(bucket.store->catalog().find("many"));
}

TEST_CASE("a bucket that cannot be listed does not open, and the error says why") {
  Bucket bucket;
  bucket.server.set(R"({"deny_list": true})");
  const auto denied = Store::open(bucket.options());
  REQUIRE_FALSE(denied);
  CHECK(denied.error().code == ErrorCode::kPermission);
  CHECK(denied.error().context.find("ListBucket") != std::string::npos);
  StoreOptions other = bucket.options();
  other.source = "s3://B/train";
  CHECK(Store::open(other).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a comparison that failed is tried again by itself, and what it finds then is told") {
  Bucket bucket;
  bucket.open();
  bucket.server.set(R"({"deny_list": true})");
  headrace::cache::Refresher refresher(*bucket.store, {.again_after = std::chrono::milliseconds(5)});
  while (refresher.state().failures < 3) std::this_thread::yield();
  CHECK(refresher.state().failure.find("ListBucket") != std::string::npos);
  CHECK(refresher.state().rounds == 0);
  bucket.server.put("train/a/1.jpg", content(1001, 9));
  bucket.server.set(R"({"deny_list": false})");
  while (refresher.state().rounds == 0) std::this_thread::yield();
  CHECK(refresher.state().failures == 0);
  CHECK(refresher.state().failure.empty());
  CHECK(refresher.state().changed == 1);
}

}  // namespace object_source_test
