// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "headrace/cache/own_peer.h"
#include "headrace/cache/peer_certificates.h"
#include "headrace/cache/shared/peer_address.h"
#include "headrace/cache/store.h"

#include "memcached.h"
#include "support/temp_dir.h"

namespace peer_tls_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::certificates_in;
using headrace::cache::EntryId;
using headrace::cache::make_peer_certificates;
using headrace::cache::PeerCertificates;
using headrace::cache::PeerStats;
using headrace::cache::PeerTalk;
using headrace::cache::Store;
using headrace::io::ErrorCode;
using headrace::test::as_text;
using headrace::test::Memcached;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::size_t kFiles = 10;

// What memcached is to have after -o, so that it talks TLS and takes whom this authority has signed.
std::string options_for(const PeerCertificates& own, const fs::path& authority) {
  return "ssl_chain_cert=" + own.certificate.string() + ",ssl_key=" + own.key.string() +
         ",ssl_ca_cert=" + authority.string() + ",ssl_verify_mode=2,ssl_min_version=3";
}

struct Job {
  Job() {
    REQUIRE(make_peer_certificates(folder).has_value());
    for (std::size_t i = 0; i < kFiles; ++i) {
      // One of them is many records of TLS, and two chunks.
      data.write("c/" + std::to_string(i), as_text(pattern_bytes(i == 0 ? 9 << 20 : 20'000 + i, i)));
    }
  }
  [[nodiscard]] PeerCertificates files() const { return certificates_in(folder); }
  [[nodiscard]] std::unique_ptr<Store> node(const std::string& peer, const fs::path& certificates) const {
    auto store = Store::open({.source = data.path(),
                              .ram_bytes = 64 << 20,
                              .shared = {.peers = {peer}, .bytes_per_peer = 1 << 30, .certificates = certificates}});
    REQUIRE(store.has_value());
    return std::move(*store);
  }
  void check_all(Store& store) const {
    for (std::size_t i = 0; i < kFiles; ++i) {
      const std::string path = "c/" + std::to_string(i);
      const EntryId entry = *store.catalog().find(path);
      for (const auto& view : {store.read(entry)}) {
        REQUIRE(view.has_value());
        CHECK(as_text({view->bytes().begin(), view->bytes().end()}) ==
              as_text(pattern_bytes(i == 0 ? 9 << 20 : 20'000 + i, i)));
      }
      store.drop(entry);
    }
  }

  TempDir data;
  TempDir work;
  fs::path folder = work.path() / "certificates";
};

PeerStats peer_of(const Store& store) {
  return store.stats().peers.at(0);
}

// The reads are right, and the peer is down for this reason.
void check_down(const Job& job, Store& store, const std::string& reason) {
  for (int i = 0; i < 500 && !peer_of(store).state.starts_with("down"); ++i) {
    job.check_all(store);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  job.check_all(store);
  CAPTURE(peer_of(store).state);
  CHECK(peer_of(store).state.find(reason) != std::string::npos);
  CHECK(peer_of(store).hits == 0);
}

}  // namespace

TEST_CASE("peer certificates: only their owner can read the key, and none is made over another") {
  const TempDir work;
  const fs::path folder = work.path() / "job";
  REQUIRE(make_peer_certificates(folder).has_value());
  struct stat status = {};
  REQUIRE(::stat(folder.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(::stat(certificates_in(folder).key.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto again = make_peer_certificates(folder);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().context.find("peer.key") != std::string::npos);
}

TEST_CASE("peer tls: what one node has read another gets from memcached, with certificates of both sides") {
  const Job job;
  const Memcached memcached(options_for(job.files(), job.files().authority), {"-Z"});
  const auto first = job.node(memcached.name(), job.folder);
  for (int i = 0; i < 500 && peer_of(*first).writes < kFiles + 2; ++i) {
    job.check_all(*first);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto second = job.node(memcached.name(), job.folder);
  job.check_all(*second);
  CHECK(peer_of(*second).state == "ok");
  CHECK(peer_of(*second).hits >= kFiles);
  CHECK(peer_of(*second).misses == 0);
  CHECK(peer_of(*second).corrupt == 0);
}

TEST_CASE("peer tls: a peer with another job's certificate is refused, and so named") {
  const Job job;
  const Job other;
  const Memcached memcached(options_for(other.files(), job.files().authority), {"-Z"});  // it would take ours
  const auto store = job.node(memcached.name(), job.folder);
  check_down(job, *store, "its certificate is not one of this job");
}

TEST_CASE("peer tls: a peer that refuses this node's certificate is so named") {
  const Job job;
  const Job other;
  const Memcached memcached(options_for(job.files(), other.files().authority), {"-Z"});
  const auto store = job.node(memcached.name(), job.folder);
  check_down(job, *store, "it refuses our certificate");
}

TEST_CASE("peer tls: who talks TLS and who talks in the clear do not understand each other, and it is said") {
  const Job job;
  SUBCASE("this node talks TLS") {
    const Memcached memcached;
    const auto store = job.node(memcached.name(), job.folder);
    check_down(job, *store, "it talks in the clear, not TLS");
  }
  SUBCASE("the peer talks TLS") {
    const Memcached memcached(options_for(job.files(), job.files().authority), {"-Z"});
    const auto store = job.node(memcached.name(), {});
    check_down(job, *store, "");
  }
}

TEST_CASE("peer tls: certificates that are missing or of another kind are refused, naming the file") {
  const Job job;
  const auto open = [&](const fs::path& folder) {
    return Store::open({.source = job.data.path(),
                        .shared = {.peers = {"127.0.0.1:1"}, .bytes_per_peer = 1 << 20, .certificates = folder}});
  };
  const auto missing = open(job.work.path() / "none");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::kInvalidArgument);
  CHECK(missing.error().context.find("none/ca.pem") != std::string::npos);
  job.work.write("certificates/peer.key", "not a key");
  const auto wrong = open(job.folder);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().context.find("peer.key") != std::string::npos);
}

TEST_CASE("peer tls: public addresses are for TLS alone") {
  using headrace::cache::Reach;
  CHECK(headrace::cache::resolve_peer("8.8.8.8:1", Reach::kAnywhere).has_value());
  CHECK_FALSE(headrace::cache::resolve_peer("8.8.8.8:1").has_value());
  const std::vector<std::string> peers = {"8.8.8.8:1"};
  CHECK(headrace::cache::find_own_peers(peers, PeerTalk::kTls)->empty());
  CHECK_FALSE(headrace::cache::find_own_peers(peers, PeerTalk::kClear).has_value());
}

TEST_CASE("own peer: the one with an address of this machine, and whether somebody listens there") {
  const Memcached memcached;
  const std::vector<std::string> peers = {"192.0.2.1:1", "10.255.255.254:5", memcached.name(), "unknown.invalid:1"};
  const auto refused = headrace::cache::find_own_peers(peers, PeerTalk::kClear);
  CHECK_FALSE(refused.has_value());  // 192.0.2.1 is public, as far as one can know
  const auto own = headrace::cache::find_own_peers(peers, PeerTalk::kTls);
  REQUIRE(own.has_value());
  REQUIRE(own->size() == 1);
  CHECK(own->front().name == memcached.name());
  CHECK(own->front().address == "127.0.0.1");
  CHECK(own->front().is_served);
  const std::vector<std::string> unserved = {"127.0.0.1:1"};
  CHECK_FALSE(headrace::cache::find_own_peers(unserved, PeerTalk::kClear)->front().is_served);
}

}  // namespace peer_tls_test
