// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_client.h"

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "object_server.h"
#include "support/temp_dir.h"

namespace object_client_test {
namespace {

using headrace::cache::ObjectClient;
using headrace::cache::ObjectRead;
using headrace::cache::ObjectStoreOptions;
using headrace::cache::ObjectStoreStats;
using headrace::io::ErrorCode;
using headrace::io::Secret;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::environment_of;
using headrace::test::ObjectServer;
using headrace::test::pattern_bytes;
using std::chrono::milliseconds;

// A read, and the wait for it.
struct Waited {
  ObjectRead read;
  std::string key;
  std::string etag;
  std::vector<std::byte> data;
  std::optional<Status> status;
  std::mutex mutex;
  std::condition_variable done;

  Waited(std::string wanted, std::size_t bytes, std::string tag = "")
      : key(std::move(wanted)), etag(std::move(tag)), data(bytes) {
    read.key = key.c_str();
    if (!etag.empty()) read.etag = etag.c_str();
    read.object_bytes = bytes;
    read.length = bytes;
    read.into = data.data();
    read.context = this;
    read.on_done = [](ObjectRead& self, Status end) {
      auto& waited = *static_cast<Waited*>(self.context);
      const std::lock_guard lock(waited.mutex);
      waited.status = std::move(end);
      waited.done.notify_one();
    };
  }
  const Status& wait() {
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return status.has_value(); });
    return *status;
  }
};

std::unique_ptr<ObjectClient> open(const ObjectStoreOptions& options) {
  auto client = ObjectClient::open(options);
  REQUIRE_MESSAGE(client.has_value(), (client ? "" : client.error().message()));
  return std::move(*client);
}

// Has one object, whose ETag is known. Of an answer that stalls nothing else comes, so that only another request helps.
struct LateStore {
  LateStore() {
    server.put("a", "content of a");
    ObjectStoreOptions options = server.options();
    options.tuning.stall_timeout = milliseconds(3'600'000);
    options.tuning.hedge_floor = milliseconds(50);
    client = open(options);
    Waited head("a", 0);
    head.read.object_bytes = ObjectRead::kAnySize;
    client->read(head.read);
    REQUIRE(head.wait().has_value());
    etag = head.read.found.etag;
  }
  void stall(int answers) { server.set(R"({"stall_seconds": 3600, "stalls": )" + std::to_string(answers) + "}"); }

  ObjectServer server;
  std::unique_ptr<ObjectClient> client;
  std::string etag;
};

// What one read of an object that is not there to be read ends with.
headrace::io::Error error_of(ObjectClient& client, const std::string& key, std::size_t bytes = 10,
                             const std::string& etag = "") {
  Waited waited(key, bytes, etag);
  client.read(waited.read);
  REQUIRE_FALSE(waited.wait().has_value());
  return waited.wait().error();
}

std::string bytes_of(ObjectClient& client, const std::string& key, std::size_t bytes) {
  Waited waited(key, bytes);
  client.read(waited.read);
  REQUIRE_MESSAGE(waited.wait().has_value(), waited.wait().error().message());
  return std::string(as_text(waited.data));
}

bool says(const headrace::io::Error& error, std::string_view words) {
  return error.message().find(words) != std::string::npos;
}

// Reads many objects at once, each with its ETag, and compares every byte.
void read_all_right(ObjectClient& client, ObjectServer& server, std::size_t count, std::size_t bytes) {
  std::vector<std::string> contents;
  std::vector<std::string> etags;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = "many/" + std::to_string(i);
    contents.emplace_back(as_text(pattern_bytes(bytes + i, i)));
    server.put(key, contents.back());
    Waited head(key, 0);
    head.read.object_bytes = ObjectRead::kAnySize;
    client.read(head.read);
    REQUIRE(head.wait().has_value());
    CHECK(head.read.found.object_bytes == bytes + i);
    etags.push_back(head.read.found.etag);
  }
  server.set(R"({"busy": 0.01, "stall": 0.01, "reset": 0.01, "short": 0.01, "stall_seconds": 3})");
  for (int round = 0; round < 5; ++round) {
    std::deque<Waited> reads;
    for (std::size_t i = 0; i < count; ++i) {
      reads.emplace_back("many/" + std::to_string(i), contents[i].size(), etags[i]).read.ahead = i % 2 == 0;
    }
    for (Waited& waited : reads) client.read(waited.read);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK_MESSAGE(reads[i].wait().has_value(), reads[i].wait().error().message());
      CHECK(as_text(reads[i].data) == contents[i]);
    }
  }
}

}  // namespace

TEST_CASE("objects are read whole, in ranges and not at all") {
  ObjectServer server;
  const std::string content(as_text(pattern_bytes(1'000'000, 1)));
  server.put("a b/c+d=e%~\xc3\xa4//x", content);
  ObjectStoreOptions options = server.options();
  options.prefix = "a b/";
  const auto client = open(options);
  CHECK(client->name() == "s3://" + server.url().substr(7) + "/bucket/a b/");
  const std::string key = "c+d=e%~\xc3\xa4//x";
  CHECK(bytes_of(*client, key, content.size()) == content);
  Waited part(key, 1000);
  part.read.object_bytes = content.size();
  part.read.offset = 123'456;
  client->read(part.read);
  REQUIRE(part.wait().has_value());
  CHECK(as_text(part.data) == content.substr(123'456, 1000));
  CHECK(part.read.found.object_bytes == content.size());
  Waited head(key, 0);
  head.read.object_bytes = content.size();
  client->read(head.read);
  REQUIRE(head.wait().has_value());
  CHECK(head.read.found.etag.size() == 32);
  CHECK(head.read.found.mtime_ns == 1'735'689'600'000'000'000);
  const ObjectStoreStats stats = client->stats();
  CHECK(stats.requests == 3);
  CHECK(stats.bytes == content.size() + 1000);
  CHECK(stats.credentials == "options");
  CHECK(server.count("HEAD") == 1);
}

TEST_CASE("what a store unpacks on the way is asked for as it is stored, or named in one line") {
  ObjectServer server;
  // Python's gzip.compress(b"x" * 1000, mtime=0)
  const std::string packed(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\xa8\x18\x05\xa3\x60\x14\x0c\x77\x00\x00\xe6\xc9\x41\x3b\xe8\x03\x00"
      "\x00",
      29);
  server.put("a.json", packed);
  const auto client = open(server.options());
  CHECK(bytes_of(*client, "a.json", packed.size()) == packed);
  CHECK(server.count("accepts identity") == 1);
  SUBCASE("it says so") {
    server.set(R"({"unpacks": "told"})");
    CHECK(bytes_of(*client, "a.json", packed.size()) == packed);
    CHECK(bytes_of(*client, "a.json", packed.size()) == packed);
    CHECK(server.count("accepts identity") == 2);
    CHECK(server.count("accepts gzip") == 2);
  }
  SUBCASE("it does not") {
    server.set(R"({"unpacks": "silently"})");
    const headrace::io::Error error = error_of(*client, "a.json", packed.size());
    CHECK(says(error, "a.json"));
    CHECK(says(error, "Content-Encoding: gzip"));
    CHECK(server.count("accepts identity") == 2);  // no second try would help
  }
}

TEST_CASE("faults of the store cost no read and no byte") {
  ObjectServer server;
  const auto client = open(server.options());
  read_all_right(*client, server, 200, 20'000);
  const ObjectStoreStats stats = client->stats();
  CHECK(stats.retries > 0);
  CHECK(stats.throttles > 0);
  CHECK(stats.errors == 0);
  CHECK(stats.stale == 0);
  CHECK(stats.in_flight == 0);
  CHECK(server.count("stall") > 0);
}

TEST_CASE("a late answer is asked for a second time, and the faster one counts") {
  LateStore store;
  store.stall(1);
  Waited late("a", 12, store.etag);
  store.client->read(late.read);
  REQUIRE(late.wait().has_value());
  CHECK(as_text(late.data) == "content of a");
  CHECK(store.client->stats().hedges == 1);
  CHECK(store.client->stats().hedges_won == 1);
}

TEST_CASE("another version of an object is stale, and none of its bytes are taken for it") {
  ObjectServer server;
  server.put("a", "first version");
  const auto client = open(server.options());
  Waited head("a", 0);
  head.read.object_bytes = 13;
  client->read(head.read);
  REQUIRE(head.wait().has_value());
  const std::string etag = head.read.found.etag;
  server.put("a", "other version");
  CHECK(error_of(*client, "a", 13, etag).code == ErrorCode::kStale);
  server.set(R"({"ignore_if_match": true})");  // a store that does not know If-Match
  CHECK(error_of(*client, "a", 13, etag).code == ErrorCode::kStale);
  server.set(R"({"wrong_etag": true})");
  CHECK(error_of(*client, "a", 13, etag).code == ErrorCode::kStale);
  server.set(R"({"wrong_etag": false})");
  CHECK(error_of(*client, "a", 12).code == ErrorCode::kStale);  // another size
  CHECK(error_of(*client, "a", 14).code == ErrorCode::kStale);
  Waited beyond("a", 5);
  beyond.read.object_bytes = 100;
  beyond.read.offset = 50;
  client->read(beyond.read);
  CHECK(beyond.wait().error().code == ErrorCode::kStale);
  server.remove("a");
  const auto gone = error_of(*client, "a", 13, etag);
  CHECK(gone.code == ErrorCode::kNotFound);
  CHECK(says(gone, "/bucket/a: no such object"));
  CHECK(client->stats().stale == 6);
  CHECK(client->stats().errors == 0);
}

TEST_CASE("an object that was written just now, and has no ETag, is asked for again when its second is over") {
  ObjectServer server;
  server.put("a", "content of a");
  const auto client = open(server.options());
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::time_t time = std::chrono::system_clock::to_time_t(now);
  std::string date(64, '\0');
  std::tm parts = {};
  date.resize(std::strftime(date.data(), date.size(), "%a, %d %b %Y %H:%M:%S GMT", ::gmtime_r(&time, &parts)));
  server.set(R"({"etags": "none", "last_modified": ")" + date + R"("})");
  Waited young("a", 12);
  young.read.mtime_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
  client->read(young.read);
  REQUIRE_MESSAGE(young.wait().has_value(), young.wait().error().message());
  CHECK(client->stats().retries == 1);
}

TEST_CASE("another range than was asked for is not taken for it") {
  ObjectServer server;
  server.put("a", "0123456789");
  const auto client = open(server.options());
  for (const char* fault : {R"({"shift_range": 1})", R"({"shift_range": 0, "ignore_range": true})"}) {
    server.set(fault);
    Waited part("a", 3);
    part.read.object_bytes = 10;
    part.read.offset = 2;
    client->read(part.read);
    REQUIRE_FALSE(part.wait().has_value());
    CHECK(part.wait().error().code == ErrorCode::kUnsupported);
  }
}

TEST_CASE("an answer that is lost within its headers is asked for again") {
  ObjectServer server;
  const std::string content(as_text(pattern_bytes(10'000, 6)));
  server.put("a", content);
  const auto client = open(server.options());
  server.set(R"({"lost_in_headers": 2})");
  Waited waited("a", 1000);
  waited.read.object_bytes = content.size();
  waited.read.offset = 5000;
  client->read(waited.read);
  REQUIRE_MESSAGE(waited.wait().has_value(), waited.wait().error().message());
  CHECK(as_text(waited.data) == content.substr(5000, 1000));
  CHECK(client->stats().retries == 2);
}

TEST_CASE("an object whose size is not said is not taken for an empty one") {
  ObjectServer server;
  server.put("a", "content");
  const auto client = open(server.options());
  server.set(R"({"no_length": true})");
  Waited head("a", 0);
  head.read.object_bytes = ObjectRead::kAnySize;
  client->read(head.read);
  REQUIRE_FALSE(head.wait().has_value());
  CHECK(head.wait().error().code == ErrorCode::kUnsupported);
  CHECK(says(head.wait().error(), "how large"));
}

TEST_CASE("a time beyond what 64 bits of nanoseconds hold is none") {
  ObjectServer server;
  server.put("a", "");
  const auto client = open(server.options());
  server.set(R"({"last_modified": "Fri, 31 Dec 9999 23:59:59 GMT"})");
  Waited head("a", 0);
  client->read(head.read);
  REQUIRE(head.wait().has_value());
  CHECK(head.read.found.mtime_ns == 0);
}

TEST_CASE("a version with a line end makes no header of its own") {
  ObjectServer server;
  server.put("a", "content");
  const auto client = open(server.options());
  CHECK(error_of(*client, "a", 7, "x\r\nRange: bytes=0-1").code == ErrorCode::kStale);
  CHECK(server.count("status 412") == 0);
}

TEST_CASE("what cannot work says why and what to do") {
  ObjectServer server;
  server.put("a", "content");
  SUBCASE("a wrong secret") {
    ObjectStoreOptions options = server.options();
    options.keys->secret = Secret("not the one");
    const auto error = error_of(*open(options), "a");
    CHECK(error.code == ErrorCode::kPermission);
    CHECK(says(error, "AWS_SECRET_ACCESS_KEY"));
    CHECK_FALSE(says(error, "not the one"));
  }
  SUBCASE("a wrong key") {
    ObjectStoreOptions options = server.options();
    options.keys->id = "AKIDOTHER";
    CHECK(says(error_of(*open(options), "a"), "does not know this access key"));
  }
  SUBCASE("no such bucket") {
    ObjectStoreOptions options = server.options();
    options.bucket = "other-bucket";
    const auto error = error_of(*open(options), "a");
    CHECK(error.code == ErrorCode::kNotFound);
    CHECK(says(error, "no such bucket"));
  }
  SUBCASE("no right") {
    server.set(R"({"deny": true})");
    const auto error = error_of(*open(server.options()), "a");
    CHECK(error.code == ErrorCode::kPermission);
    CHECK(says(error, "s3:GetObject"));
  }
  SUBCASE("who reads has to pay") {
    server.set(R"({"requester_pays": true})");
    ObjectStoreOptions options = server.options();
    const auto error = error_of(*open(options), "a");
    CHECK(error.code == ErrorCode::kPermission);
    CHECK(says(error, "--requester-pays"));
    options.requester_pays = true;
    CHECK(bytes_of(*open(options), "a", 7) == "content");
    server.set(R"({"deny": true})");
    CHECK_FALSE(says(error_of(*open(options), "a"), "--requester-pays"));
    server.set(R"({"deny": false})");
    options.requester_pays = false;
    options.environment = environment_of({{"AWS_REQUEST_PAYER", "requester"}});
    CHECK(bytes_of(*open(options), "a", 7) == "content");
    CHECK(open(options)->stats().requester_pays);
  }
  SUBCASE("nobody there") {
    ObjectStoreOptions options = server.options();
    options.endpoint = "http://127.0.0.1:1";
    const auto error = error_of(*open(options), "a");
    CHECK(error.code == ErrorCode::kTimedOut);
    CHECK(says(error, "connect"));
    CHECK(says(error, "(6 attempts)"));
  }
  SUBCASE("not signed") {
    ObjectStoreOptions options = server.options();
    options.no_sign_request = true;
    CHECK(error_of(*open(options), "a").code == ErrorCode::kPermission);
    server.set(R"({"unsigned": true})");
    CHECK(bytes_of(*open(options), "a", 7) == "content");
  }
  SUBCASE("no keys at all") {
    ObjectStoreOptions options = server.options();
    options.keys.reset();
    options.environment = environment_of({{"AWS_EC2_METADATA_DISABLED", "true"}});
    const auto client = ObjectClient::open(options);
    REQUIRE_FALSE(client.has_value());
    CHECK(says(client.error(), "--no-sign-request"));
  }
}

TEST_CASE("a bucket in another region is found, once for all reads") {
  ObjectServer server;
  server.put("a", "content");
  server.set(R"({"region": "eu-west-1"})");
  const auto client = open(server.options());
  CHECK(bytes_of(*client, "a", 7) == "content");
  CHECK(bytes_of(*client, "a", 7) == "content");
  CHECK(client->stats().region == "eu-west-1");
  CHECK(server.count("status 400") == 1);
}

TEST_CASE("a bucket in the name of the host is read, and the signature is of that host") {
  ObjectServer server;
  server.put("a b", "content");
  ObjectStoreOptions options = server.options();
  options.endpoint = "http://localhost" + server.url().substr(server.url().rfind(':'));
  options.path_style = false;
  CHECK(bytes_of(*open(options), "a b", 7) == "content");
  CHECK(server.count("virtual host") == 1);
  options.bucket = "other";
  CHECK(says(error_of(*open(options), "a b"), "no such bucket"));
}

TEST_CASE("a redirect is followed, but not in a circle") {
  ObjectServer server;
  ObjectServer other;
  server.put("a", "here");
  other.put("a", "there");
  server.set(R"({"redirects": 1, "redirect": ")" + other.url() + R"("})");
  const auto client = open(server.options());
  CHECK(bytes_of(*client, "a", 5) == "there");
  CHECK(bytes_of(*client, "a", 4) == "here");
  server.set(R"({"redirects": 100, "redirect": ")" + server.url() + R"("})");
  CHECK(says(error_of(*client, "a", 4), "HTTP 307"));
}

TEST_CASE("a clock that is wrong is noticed, and the store's is used") {
  ObjectServer server;
  server.put("a", "content");
  server.set(R"({"clock": -7200})");
  const auto client = open(server.options());
  CHECK(bytes_of(*client, "a", 7) == "content");
  CHECK(bytes_of(*client, "a", 7) == "content");
  CHECK(server.count("status 403") == 1);
  CHECK(client->stats().clock_behind.count() <= -7198);
  CHECK(client->stats().clock_behind.count() >= -7202);
}

TEST_CASE("a clock is noticed before a store refuses it, and by a refusal that does not say why") {
  ObjectServer server;
  server.put("empty", "");
  server.set(R"({"clock": -7200})");
  const auto client = open(server.options());
  Waited head("empty", 0);
  client->read(head.read);
  CHECK_MESSAGE(head.wait().has_value(), head.wait().error().message());
  server.set(R"({"clock": -600})");
  const auto stats = headrace::cache::probe_bucket("s3://bucket", server.options());
  REQUIRE(stats.has_value());
  CHECK(stats->clock_behind.count() <= -598);
  CHECK(stats->clock_behind.count() >= -602);
}

TEST_CASE("a store that asks for more time than a read has is asked sooner") {
  ObjectServer server;
  server.put("a", "content");
  server.set(R"({"all_busy": 2, "retry_after": "60"})");
  ObjectStoreOptions options = server.options();
  options.tuning.give_up_after = milliseconds(6'000);
  const auto client = open(options);
  CHECK(bytes_of(*client, "a", 7) == "content");
  CHECK(client->stats().throttles == 2);
}

TEST_CASE("requests leave half of the descriptors to all others") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = few.rlim_max = 256;
  ObjectServer server;
  const pid_t child = ::fork();
  if (child == 0) {  // a hard limit cannot be raised again
    const bool is_set = ::setrlimit(RLIMIT_NOFILE, &few) == 0;
    const auto client = ObjectClient::open(server.options());
    ::_exit(is_set && client && (*client)->options().tuning.in_flight_max == 128 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a store that is busy for long fails no read") {
  ObjectServer server;
  server.put("a", "content");
  server.set(R"({"all_busy": 30})");
  const auto client = open(server.options());
  CHECK(bytes_of(*client, "a", 7) == "content");
  CHECK(client->stats().throttles == 30);
  CHECK(client->stats().in_flight_limit < 64);
}

TEST_CASE("a store that is away behind its gateway fails no read") {
  ObjectServer server;
  server.put("a", "content");
  for (const char* faults : {R"({"all_busy": 12, "busy_status": 502})", R"({"all_busy": 12, "busy_status": 504})"}) {
    CAPTURE(faults);
    server.set(faults);
    const auto client = open(server.options());
    CHECK(bytes_of(*client, "a", 7) == "content");
  }
}

TEST_CASE("an object that always fails is given up after six attempts") {
  ObjectServer server;
  server.put("a", "content");
  server.set(R"({"short": 1.0})");
  const auto client = open(server.options());
  CHECK(says(error_of(*client, "a", 7), "(6 attempts)"));
  CHECK(server.count("key a") == 6);
  CHECK(client->stats().errors == 1);
}

TEST_CASE("what is in flight and queued when the client stops ends as cancelled, each once") {
  ObjectServer server;
  server.put("a", "content");
  server.set(R"({"delay": 3600})");
  ObjectStoreOptions options = server.options();
  options.tuning.in_flight_first = 4;
  options.tuning.stall_timeout = milliseconds(3'600'000);
  const auto client = open(options);
  std::deque<Waited> reads;
  for (int i = 0; i < 20; ++i) client->read(reads.emplace_back("a", 7).read);
  while (server.count("GET") < 4) std::this_thread::yield();
  client->stop();
  for (Waited& waited : reads) CHECK(waited.wait().error().code == ErrorCode::kCancelled);
  client->join();
  CHECK(error_of(*client, "a").code == ErrorCode::kCancelled);
}

TEST_CASE("what somebody waits for goes before what is read ahead") {
  ObjectServer server;
  for (const char* key : {"first", "ahead", "hurried", "waited"}) server.put(key, key);
  server.set(R"({"delay": 0.2})");
  ObjectStoreOptions options = server.options();
  options.tuning.in_flight_first = 1;
  options.tuning.in_flight_max = 1;
  const auto client = open(options);
  static std::mutex mutex;
  static std::vector<std::string> order;
  order.clear();
  std::deque<Waited> reads;
  const auto read = [&](const char* key, bool ahead) {
    Waited& waited = reads.emplace_back(key, std::string_view(key).size());
    waited.read.ahead = ahead;
    waited.read.known_as = &waited;
    waited.read.on_done = [](ObjectRead& self, Status status) {
      const std::lock_guard lock(mutex);
      order.emplace_back(self.key);
      auto& one = *static_cast<Waited*>(self.context);
      const std::lock_guard own(one.mutex);
      one.status = std::move(status);
      one.done.notify_one();
    };
    client->read(waited.read);
  };
  read("first", false);
  while (server.count("GET") == 0) std::this_thread::yield();
  read("ahead", true);
  read("hurried", true);
  read("waited", false);
  client->hurry(&reads[2]);
  for (Waited& waited : reads) CHECK(waited.wait().has_value());
  CHECK(order == std::vector<std::string>{"first", "waited", "hurried", "ahead"});
}

TEST_CASE("a read ahead that has been sent gets a second request when somebody waits for it") {
  LateStore store;
  store.stall(1);
  Waited late("a", 12, store.etag);
  late.read.ahead = true;
  late.read.known_as = &late;
  store.client->read(late.read);
  while (store.server.count("stall") == 0) std::this_thread::yield();
  CHECK(store.client->stats().hedges == 0);
  store.client->hurry(&late);
  REQUIRE(late.wait().has_value());
  CHECK(store.client->stats().hedges_won == 1);
}

TEST_CASE("a read ahead that is late gets a second request where it is known how long answers take") {
  LateStore store;
  for (int i = 0; i < 64; ++i) bytes_of(*store.client, "a", 12);
  store.stall(1);
  Waited late("a", 12, store.etag);
  late.read.ahead = true;
  store.client->read(late.read);
  REQUIRE(late.wait().has_value());
  CHECK(as_text(late.data) == "content of a");
  CHECK(store.client->stats().hedges_won == 1);
}

TEST_CASE("a second request that stalls as well is followed by another one") {
  LateStore store;
  for (int i = 0; i < 40; ++i) bytes_of(*store.client, "a", 12);  // of 100 requests three may be second ones
  store.stall(2);
  Waited late("a", 12, store.etag);
  store.client->read(late.read);
  REQUIRE(late.wait().has_value());
  CHECK(as_text(late.data) == "content of a");
  CHECK(store.client->stats().hedges >= 2);
  CHECK(store.client->stats().hedges_won == 1);
  CHECK(store.client->stats().retries == 0);
  CHECK(store.client->stats().in_flight == 0);
}

TEST_CASE("a store that is slower than the longest stall is read when it is asked again") {
  ObjectServer server;
  server.put("a", "content of a");
  const auto client = open(server.options());  // 400 ms at first
  server.set(R"({"delay": 0.6})");
  CHECK(bytes_of(*client, "a", 12) == "content of a");
  CHECK(client->stats().retries == 1);
}

TEST_CASE("an answer that stalls is given up soon where it is known how long answers take") {
  ObjectServer server;
  server.put("a", "content of a");
  ObjectStoreOptions options = server.options();
  options.tuning.stall_timeout = milliseconds(3'600'000);
  const auto client = open(options);
  for (int i = 0; i < 64; ++i) CHECK(bytes_of(*client, "a", 12) == "content of a");
  server.set(R"({"stalls": 2, "stall_seconds": 3600})");
  Waited stalled("a", 12);  // without an ETag: no second request
  client->read(stalled.read);
  REQUIRE(stalled.wait().has_value());
  CHECK(client->stats().retries == 2);
}

}  // namespace object_client_test
