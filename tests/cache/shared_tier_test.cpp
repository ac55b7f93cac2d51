// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/shared_tier.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/shared/peer_address.h"
#include "headrace/cache/shared/peer_connection.h"
#include "headrace/cache/shared/peer_figures.h"
#include "headrace/cache/shared/peer_health.h"
#include "headrace/cache/shared/peer_placement.h"
#include "headrace/cache/shared/shared_value.h"
#include "headrace/cache/store.h"
#include "headrace/io/printable.h"

#include "fake_peer.h"
#include "memcached.h"
#include "sharing_nodes.h"
#include "support/temp_dir.h"

namespace shared_tier_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::Identity;
using headrace::cache::kNoPeer;
using headrace::cache::PeerIndex;
using headrace::cache::PeerRequest;
using headrace::cache::place_on_peers;
using headrace::cache::PlacedFile;
using headrace::cache::SharedTierOptions;
using headrace::cache::Store;
using headrace::cache::TierKind;
using headrace::cache::TierStats;
using headrace::io::ErrorCode;
using headrace::test::as_text;
using headrace::test::Cluster;
using headrace::test::FakePeer;
using headrace::test::Memcached;
using headrace::test::pattern_bytes;
using headrace::test::stats_of;
using headrace::test::TempDir;
using headrace::test::wait_for_puts;
using Way = FakePeer::Way;

std::vector<PlacedFile> many_files(std::size_t count) {
  std::vector<PlacedFile> files;
  for (std::size_t i = 0; i < count; ++i)
    files.push_back({0x9e3779b97f4a7c15ULL * (i + 1), 50'000 + i * 7919 % 100'000});
  return files;
}

double moved(const std::vector<PeerIndex>& before, const std::vector<std::string>& old_names,
             const std::vector<PeerIndex>& after, const std::vector<std::string>& new_names) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < before.size(); ++i) count += old_names[before[i]] != new_names[after[i]] ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(before.size());
}

// A read for which nobody waits, as far as the store knows. False: it failed.
bool read_ahead(Store& store, const std::string& path) {
  std::promise<bool> ended;
  store.read_async(
      *store.catalog().find(path), [&](const auto& view) { ended.set_value(view.has_value()); },
      headrace::cache::ReadHint::kAhead);
  return ended.get_future().get();
}

ErrorCode refusal_of(const SharedTierOptions& options) {
  const TempDir dir;
  dir.write("c/a.jpg", "a");
  const auto store = Store::open({.source = dir.path(), .shared = options});
  REQUIRE_FALSE(store.has_value());
  return store.error().code;
}

}  // namespace

TEST_CASE("placement on peers: the same for every order of the list, in about equal parts") {
  const auto files = many_files(20'000);
  const std::vector<std::string> names = {"n1:1", "n2:1", "n3:1"};
  const std::vector<std::string> turned = {"n3:1", "n1:1", "n2:1"};
  const auto owners = place_on_peers(files, names, 1ULL << 40);
  CHECK(moved(owners, names, place_on_peers(files, turned, 1ULL << 40), turned) == 0);
  for (PeerIndex peer = 0; peer < 3; ++peer) {
    const auto share = static_cast<double>(std::count(owners.begin(), owners.end(), peer)) / 20'000;
    CHECK(share == doctest::Approx(1.0 / 3).epsilon(0.05));
  }
}

TEST_CASE("placement on peers: one that comes takes its part, one that leaves moves no other's") {
  const auto files = many_files(20'000);
  const std::vector<std::string> three = {"n1:1", "n2:1", "n3:1"};
  const std::vector<std::string> four = {"n1:1", "n2:1", "n3:1", "n4:1"};
  const auto before = place_on_peers(files, three, 1ULL << 40);
  const auto after = place_on_peers(files, four, 1ULL << 40);
  CHECK(moved(before, three, after, four) <= 0.27);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (after[i] != 3) CHECK(before[i] == after[i]);
  }
}

TEST_CASE("placement on peers: who joins or leaves moves little more than his part, of any number of peers") {
  const auto files = many_files(20'000);
  std::uint64_t all = 0;
  for (const PlacedFile& file : files) all += file.bytes;
  for (const std::size_t count : {1U, 2U, 3U, 7U, 40U, 200U}) {
    // Room for nothing more than the data set, also after one has left; and far more than that.
    for (const double room : {1.05, 100.0}) {
      CAPTURE(count);
      CAPTURE(room);
      std::vector<std::string> before;
      for (std::size_t i = 0; i < count; ++i) before.push_back("n" + std::to_string(i) + ":1");
      std::vector<std::string> after = before;
      after.emplace_back("newcomer:1");
      const auto budget = static_cast<std::uint64_t>(static_cast<double>(all / count) * room / 0.9) + 200'000;
      const auto owners = place_on_peers(files, before, budget);
      const auto joined = place_on_peers(files, after, budget);
      std::size_t moves = 0;
      for (std::size_t i = 0; i < files.size(); ++i) {
        moves += owners[i] != joined[i] && owners[i] != kNoPeer && joined[i] != kNoPeer ? 1 : 0;
      }
      CHECK(static_cast<double>(moves) / 20'000 <= 1.0 / static_cast<double>(count + 1) + 0.02);
    }
  }
}

TEST_CASE("placement on peers: 1024 peers of a room that just suffices hold all but a thousandth") {
  const auto files = many_files(100'000);
  std::uint64_t all = 0;
  for (const PlacedFile& file : files) all += file.bytes;
  std::vector<std::string> peers;
  for (std::size_t i = 0; i < 1024; ++i) peers.push_back("n" + std::to_string(i) + ":1");
  const auto owners = place_on_peers(files, peers, static_cast<std::uint64_t>(static_cast<double>(all) / 1024 * 1.25));
  CHECK(std::count(owners.begin(), owners.end(), kNoPeer) <= 100);
}

TEST_CASE("placement on peers: what does not fit stays with the source, and no peer gets too much") {
  const auto files = many_files(5'000);
  std::uint64_t all = 0;
  for (const PlacedFile& file : files) all += file.bytes;
  const std::uint64_t budget = all / 5;
  const auto owners = place_on_peers(files, std::vector<std::string>{"n1:1", "n2:1", "n3:1"}, budget);
  std::map<PeerIndex, std::uint64_t> held;
  for (std::size_t i = 0; i < files.size(); ++i) held[owners[i]] += files[i].bytes;
  for (PeerIndex peer = 0; peer < 3; ++peer) {
    CHECK(held[peer] <= budget * 9 / 10);
    CHECK(held[peer] >= budget * 85 / 100);
  }
  CHECK(held[kNoPeer] > 0);
  CHECK(place_on_peers(files, {}, budget) == std::vector<PeerIndex>(files.size(), kNoPeer));
}

TEST_CASE("shared value: each byte of it counts, and each part of the identity") {
  using headrace::cache::is_value_of;
  using headrace::cache::make_header;
  using headrace::cache::shared_key;
  const Identity identity{.size_bytes = 100, .mtime_ns = 5, .ctime_ns = 6, .inode = 7};
  const auto key = shared_key("/data", "a.jpg", 0, identity);
  CHECK(key.size() == headrace::cache::kSharedKeyBytes);
  CHECK(key != shared_key("/dat", "aa.jpg", 0, identity));
  CHECK(key != shared_key("/data", "a.jpg", 1, identity));
  for (auto change : {&Identity::mtime_ns, &Identity::ctime_ns}) {
    Identity other = identity;
    other.*change += 1;
    CHECK(key != shared_key("/data", "a.jpg", 0, other));
  }
  auto payload = pattern_bytes(100, 1);
  auto header = make_header(key, payload);
  CHECK(is_value_of(key, header, payload));
  for (std::byte& byte : header) {
    byte ^= std::byte{4};
    CHECK_FALSE(is_value_of(key, header, payload));
    byte ^= std::byte{4};
  }
  payload[99] ^= std::byte{1};
  CHECK_FALSE(is_value_of(key, header, payload));
  CHECK_FALSE(is_value_of(shared_key("/data", "b.jpg", 0, identity), header, pattern_bytes(100, 1)));
}

TEST_CASE("peer health: broken is down at once, late is down the third time, and an answer ends both") {
  using headrace::cache::PeerHealth;
  using std::chrono::milliseconds;
  const auto begin = PeerHealth::Clock::now();
  PeerHealth health;
  CHECK(health.may_ask(begin) == PeerHealth::Ask::kYes);
  CHECK_FALSE(health.note_late(begin));
  CHECK_FALSE(health.note_late(begin));
  CHECK_FALSE(health.note_answer());  // it was never down
  CHECK_FALSE(health.note_late(begin));
  CHECK_FALSE(health.note_late(begin));
  CHECK_FALSE(health.is_down());
  CHECK(health.note_late(begin));
  CHECK(health.is_down());
  CHECK(health.may_ask(begin + milliseconds(999)) == PeerHealth::Ask::kNo);
  CHECK(health.may_ask(begin + milliseconds(1001)) == PeerHealth::Ask::kToFindOut);
  CHECK(health.may_ask(begin + milliseconds(1002)) == PeerHealth::Ask::kNo);  // one finds out
  CHECK_FALSE(health.note_late(begin + milliseconds(1200)));                  // it has been down all the time
  CHECK(health.may_ask(begin + milliseconds(2100)) == PeerHealth::Ask::kNo);
  CHECK(health.note_answer());
  CHECK(health.may_ask(begin) == PeerHealth::Ask::kYes);
  CHECK(health.note_broken(begin));
  CHECK_FALSE(health.note_broken(begin));
  CHECK(health.is_down());
}

// A request whose end nobody waits for.
std::unique_ptr<PeerRequest> get_into(std::vector<std::byte>& payload) {
  auto request = std::make_unique<PeerRequest>();
  request->key = std::string(headrace::cache::kSharedKeyBytes, 'k');
  request->payload = payload;
  request->done = [](PeerRequest::Outcome) {};
  return request;
}

TEST_CASE("peer connection: asking a silent peer for more does not give it more time") {
  FakePeer peer;
  peer.behave(Way::kIsSilent);
  std::vector<std::byte> payload(1000);
  headrace::cache::PeerConnection connection(headrace::cache::resolve_peer(peer.name())->front());
  connection.submit(get_into(payload));
  while (connection.wants_to_send()) REQUIRE(connection.advance());
  const auto late_at = connection.late_at();
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    connection.submit(get_into(payload));
    while (connection.wants_to_send()) REQUIRE(connection.advance());
    CHECK(connection.late_at() == late_at);
  }
}

TEST_CASE("peer connection: what waits behind other payloads has the time that these take") {
  FakePeer peer;
  std::vector<std::byte> payload(std::size_t{8} << 20);
  headrace::cache::PeerConnection connection(headrace::cache::resolve_peer(peer.name())->front());
  std::vector<PeerRequest*> requests;
  for (int i = 0; i < 65; ++i) {
    auto request = get_into(payload);
    requests.push_back(request.get());
    connection.submit(std::move(request));
  }
  CHECK(requests.back()->late_at - requests.front()->late_at > std::chrono::seconds(30));
}

TEST_CASE("shared tier: what one node has read another gets from the peers, not from the source") {
  FakePeer one;
  FakePeer two;
  const Cluster cluster;
  const auto first = cluster.node({one.name(), two.name()});
  cluster.check_all(*first);
  wait_for_puts(*first, cluster.contents.size());
  CHECK(one.size() + two.size() == cluster.contents.size());
  CHECK(one.size() > 0);
  CHECK(two.size() > 0);

  const auto second = cluster.node({two.name(), one.name()});
  cluster.check_all(*second);
  CHECK(stats_of(*second, TierKind::kSource).hits == 0);
  CHECK(stats_of(*second, TierKind::kShared).hits == cluster.contents.size());
  CHECK(stats_of(*second, TierKind::kShared).state == "ok");
  CHECK(stats_of(*second, TierKind::kShared).samples == cluster.contents.size());

  const auto peers = second->stats().peers;
  REQUIRE(peers.size() == 2);
  CHECK(peers[0].name < peers[1].name);
  CHECK(peers[0].hits + peers[1].hits == cluster.contents.size());
  for (const auto& peer : peers) {
    CHECK(peer.state == "ok");
    CHECK(peer.hits == peer.samples);
    CHECK(peer.hit_bytes == peer.bytes);
    CHECK(peer.misses == 0);
    CHECK(peer.seconds_p50 > 0);
    CHECK(peer.seconds_p99 >= peer.seconds_p50);
  }
  for (const auto& peer : first->stats().peers) CHECK(peer.misses == peer.writes);
}

TEST_CASE("peer figures: half and all but a hundredth of the answers") {
  using headrace::cache::PeerFigures;
  using std::chrono::microseconds;
  PeerFigures figures;
  for (int i = 0; i < 98; ++i) figures.note_get(PeerRequest::Outcome::kDone, 10, microseconds(700));
  for (int i = 0; i < 2; ++i) figures.note_get(PeerRequest::Outcome::kMiss, 10, microseconds(20'000));
  figures.note_get(PeerRequest::Outcome::kFailed, 10, microseconds(200'000));  // nobody answered
  headrace::cache::PeerStats stats;
  figures.add_to(stats);
  CHECK(stats.seconds_p50 == doctest::Approx(1024e-6));
  CHECK(stats.seconds_p99 == doctest::Approx(32768e-6));
  CHECK(stats.hits == 98);
  CHECK(stats.hit_bytes == 980);
  CHECK(stats.misses == 2);
  CHECK(stats.errors == 1);
}

TEST_CASE("shared tier: whatever a peer does, every read gets the right bytes") {
  for (const Way way : {Way::kBreaksOff, Way::kFlipsBits, Way::kGivesOther, Way::kIsShort, Way::kTalksNonsense}) {
    CAPTURE(static_cast<int>(way));
    FakePeer peer;
    const Cluster cluster(8, way == Way::kGivesOther ? 3'000 : 20'000);
    const auto first = cluster.node({peer.name()});
    cluster.check_all(*first);
    wait_for_puts(*first, cluster.contents.size());
    peer.behave(way);
    const auto second = cluster.node({peer.name()});
    cluster.check_all(*second);
    CHECK(second->stats().failures == 0);
    const TierStats shared = stats_of(*second, TierKind::kShared);
    const bool is_wrong = way == Way::kFlipsBits || way == Way::kIsShort;
    if (is_wrong) CHECK(shared.corrupt == cluster.contents.size());
    if (way == Way::kBreaksOff || way == Way::kTalksNonsense) {
      CHECK(shared.errors > 0);
      CHECK(shared.state.find("is down") != std::string::npos);
      CHECK(shared.state == headrace::io::printable(shared.state));  // it is shown in a terminal
    }
  }
}

TEST_CASE("shared tier: a value of another key is none, and a wrong one is stored anew") {
  FakePeer peer;
  const TempDir dir;
  dir.write("c/a.jpg", as_text(pattern_bytes(5'000, 1)));
  dir.write("c/b.jpg", as_text(pattern_bytes(5'000, 2)));
  const auto open = [&] {
    auto store = Store::open(
        {.source = dir.path(), .ram_bytes = 64 << 20, .shared = {.peers = {peer.name()}, .bytes_per_peer = 1 << 30}});
    REQUIRE(store.has_value());
    return std::move(*store);
  };
  const auto read = [](Store& store, const std::string& path) {
    const auto view = store.read(*store.catalog().find(path));
    REQUIRE(view.has_value());
    return std::vector<std::byte>(view->bytes().begin(), view->bytes().end());
  };
  const auto first = open();
  static_cast<void>(read(*first, "c/a.jpg"));
  static_cast<void>(read(*first, "c/b.jpg"));
  wait_for_puts(*first, 2);
  peer.behave(Way::kGivesOther);
  const auto second = open();
  CHECK(read(*second, "c/a.jpg") == pattern_bytes(5'000, 1));
  CHECK(stats_of(*second, TierKind::kShared).corrupt == 1);
  CHECK(stats_of(*second, TierKind::kSource).hits == 1);

  peer.behave(Way::kWell);
  peer.spoil();
  const auto third = open();
  CHECK(read(*third, "c/b.jpg") == pattern_bytes(5'000, 2));
  CHECK(stats_of(*third, TierKind::kShared).corrupt == 1);
  wait_for_puts(*third, 1);
  const auto fourth = open();
  CHECK(read(*fourth, "c/b.jpg") == pattern_bytes(5'000, 2));
  CHECK(stats_of(*fourth, TierKind::kShared).hits == 1);
}

TEST_CASE("shared tier: a silent peer costs a few waits, is down, and comes back") {
  FakePeer peer;
  const Cluster cluster;
  const auto first = cluster.node({peer.name()});
  cluster.check_all(*first);
  wait_for_puts(*first, cluster.contents.size());

  peer.behave(Way::kIsSilent);
  const auto second = cluster.node({peer.name()});
  cluster.check_all(*second);
  CHECK(second->stats().failures == 0);
  CHECK(peer.gets() <= cluster.contents.size() + 5);  // those of the first node, then hardly any
  CHECK(stats_of(*second, TierKind::kShared).state.find("silent") != std::string::npos);

  peer.behave(Way::kWell);
  const EntryId entry = *second->catalog().find("c/0.jpg");
  for (int i = 0; i < 100 && stats_of(*second, TierKind::kShared).state != "ok"; ++i) {
    second->drop(entry);
    REQUIRE(second->read(entry).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(stats_of(*second, TierKind::kShared).state == "ok");
}

TEST_CASE("shared tier: a peer is not late whose answer lay there while another one's was worked on") {
  FakePeer one;
  FakePeer other;
  const Cluster cluster;
  const auto first = cluster.node({one.name(), other.name()});
  cluster.check_all(*first);
  wait_for_puts(*first, cluster.contents.size());

  // Which file is whose tells the number of gets.
  const auto store = cluster.node({one.name(), other.name()});
  std::optional<EntryId> of_one;
  std::optional<EntryId> of_other;
  for (const auto& [path, content] : cluster.contents) {
    const EntryId entry = *store->catalog().find(path);
    const unsigned before = one.gets();
    REQUIRE(store->read(entry).has_value());
    (one.gets() > before ? of_one : of_other) = entry;
    store->drop(entry);
  }
  REQUIRE((of_one && of_other));
  // The machine may be so busy that the other peer is late before its answer may come; not three times.
  bool was_hit = false;
  for (int i = 0; i < 3 && !was_hit; ++i) {
    one.behave(Way::kHolds);
    other.behave(Way::kHolds);
    const unsigned gets = one.gets() + other.gets();
    std::promise<TierKind> held;
    std::promise<void> worked_on;
    store->read_async(*of_other, [&](const auto& view) { held.set_value(view->served_from()); });
    store->read_async(*of_one, [&](const auto&) {
      other.behave(Way::kWell);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // longer than a peer may be silent
      worked_on.set_value();
    });
    for (int wait = 0; wait < 1000 && one.gets() + other.gets() < gets + 2; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    one.behave(Way::kWell);  // whose answer is the first then
    worked_on.get_future().wait();
    was_hit = held.get_future().get() == TierKind::kShared;
    store->drop(*of_one);
    store->drop(*of_other);
  }
  CHECK(was_hit);
}

TEST_CASE("shared tier: most of the memory may wait for a peer to take it") {
  FakePeer peer;
  peer.behave(Way::kStoresLate);
  const Cluster cluster;
  auto store = Store::open({.source = cluster.dir.path(),
                            .ram_bytes = 1 << 20,
                            .shared = {.peers = {peer.name()}, .bytes_per_peer = std::uint64_t{1} << 30}});
  REQUIRE(store.has_value());
  cluster.check_all(**store);
  const auto ended = [&] { return (*store)->stats().peers[0].writes + (*store)->stats().peers[0].errors; };
  for (int i = 0; i < 500 && ended() < cluster.contents.size(); ++i) {  // each is given up in the end
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(ended() == cluster.contents.size());
}

TEST_CASE("shared tier: what another node is reading is waited for, and leaves the source once") {
  FakePeer peer;
  peer.behave(Way::kStoresLate);
  const Cluster cluster(1);
  const auto first = cluster.node({peer.name()});
  cluster.check_all(*first);
  const auto second = cluster.node({peer.name()});
  CHECK(read_ahead(*second, "c/0.jpg"));
  CHECK(peer.gets() >= 4);  // one of the first node; the second is told twice to wait
  CHECK(stats_of(*second, TierKind::kSource).hits == 0);
  CHECK(stats_of(*second, TierKind::kShared).hits == 1);
}

TEST_CASE("shared tier: what never comes is read from the source, later if nobody waits") {
  FakePeer peer;
  peer.behave(Way::kNeverHas);
  const Cluster cluster(2);
  const auto node = cluster.node({peer.name()});
  CHECK(node->read(*node->catalog().find("c/0.jpg")).has_value());
  CHECK(peer.gets() == 4);
  CHECK(read_ahead(*node, "c/1.jpg"));
  CHECK(peer.gets() == 4 + 18);
  CHECK(stats_of(*node, TierKind::kShared).state == "ok");
}

TEST_CASE("shared tier: a value whose time is half over is renewed") {
  for (const int seconds : {40'000, 50'000}) {
    CAPTURE(seconds);
    FakePeer peer;
    const Cluster cluster(3);
    const auto first = cluster.node({peer.name()});
    cluster.check_all(*first);
    wait_for_puts(*first, 3);
    peer.say_seconds_left(seconds);
    const auto second = cluster.node({peer.name()});
    cluster.check_all(*second);
    cluster.check_all(*cluster.node({peer.name()}));
    // The last read's is on its way at most.
    CHECK((seconds < 43'200 ? peer.renewals() >= 3 : peer.renewals() == 0));
  }
}

TEST_CASE("shared tier: a peer that closes what nobody uses is not down") {
  FakePeer peer;
  const Cluster cluster;
  const auto node = cluster.node({peer.name()});
  cluster.check_all(*node);
  wait_for_puts(*node, cluster.contents.size());
  peer.hang_up();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (EntryId entry = 0; entry < node->catalog().entry_count(); ++entry) node->drop(entry);
  cluster.check_all(*node);
  CHECK(stats_of(*node, TierKind::kShared).hits == cluster.contents.size());
  CHECK(stats_of(*node, TierKind::kShared).errors == 0);
  CHECK(stats_of(*node, TierKind::kShared).state == "ok");
}

TEST_CASE("shared tier: a node's own disk holds what a peer that is down cannot") {
  std::string gone;
  {
    const FakePeer peer;
    gone = peer.name();
  }
  const Cluster cluster;
  const TempDir disk;
  auto store = Store::open({.source = cluster.dir.path(),
                            .ram_bytes = 64 << 20,
                            .tiers = {{.kind = TierKind::kSsd, .path = disk.path(), .budget_bytes = 1 << 28}},
                            .shared = {.peers = {gone}, .bytes_per_peer = 1 << 30}});
  REQUIRE(store.has_value());
  cluster.check_all(**store);
  CHECK((*store)->flush().has_value());
  CHECK(stats_of(**store, TierKind::kSsd).samples == cluster.contents.size());
}

TEST_CASE("shared tier: without its peers a node reads the source") {
  std::string gone;
  {
    const FakePeer peer;
    gone = peer.name();
  }
  const Cluster cluster;
  const auto store = cluster.node({gone, "no-such-host.invalid:11311"});
  cluster.check_all(*store);
  CHECK(store->stats().failures == 0);
  CHECK(stats_of(*store, TierKind::kSource).hits == cluster.contents.size());
}

TEST_CASE("shared tier: a full peer is said to be, and nothing else changes") {
  FakePeer peer;
  peer.behave(Way::kIsFull);
  const Cluster cluster;
  const auto store = cluster.node({peer.name()});
  cluster.check_all(*store);
  for (int i = 0; i < 500 && stats_of(*store, TierKind::kShared).state != "full"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(stats_of(*store, TierKind::kShared).state == "full");
  CHECK(peer.size() == 0);
}

TEST_CASE("shared tier: a file that was rewritten with its size and time as they were is another one") {
  FakePeer peer;
  Cluster cluster(1);
  const auto first = cluster.node({peer.name()});
  cluster.check_all(*first);
  wait_for_puts(*first, 1);

  const fs::path file = cluster.dir.path() / "c/0.jpg";
  struct stat before = {};
  REQUIRE(::stat(file.c_str(), &before) == 0);
  std::string& content = cluster.contents["c/0.jpg"];
  content = as_text(pattern_bytes(content.size(), 99));
  std::ofstream(file, std::ios::in | std::ios::out | std::ios::binary) << content;
  const timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);

  const auto second = cluster.node({peer.name()});
  cluster.check_all(*second);
  CHECK(stats_of(*second, TierKind::kShared).hits == 0);
}

TEST_CASE("shared tier: a store closes although a peer owes it answers") {
  FakePeer peer;
  peer.behave(Way::kIsSilent);
  const Cluster cluster(4);
  std::vector<std::promise<bool>> ended(4);
  {
    const auto store = cluster.node({peer.name()});
    for (std::size_t i = 0; i < ended.size(); ++i) {
      store->read_async(*store->catalog().find("c/" + std::to_string(i) + ".jpg"),
                        [&promise = ended[i]](const auto& view) { promise.set_value(view.has_value()); });
    }
  }
  for (std::promise<bool>& promise : ended) static_cast<void>(promise.get_future().get());
}

TEST_CASE("shared tier: peers that cannot be meant are refused") {
  CHECK(refusal_of({.peers = {"127.0.0.1:1"}}) == ErrorCode::kInvalidArgument);
  CHECK(refusal_of({.peers = {"127.0.0.1:1", "127.0.0.1:1"}, .bytes_per_peer = 1}) == ErrorCode::kInvalidArgument);
  CHECK(refusal_of({.peers = {"8.8.8.8:11311"}, .bytes_per_peer = 1}) == ErrorCode::kInvalidArgument);
  CHECK(refusal_of({.peers = {"[2001:4860:4860::8888]:1"}, .bytes_per_peer = 1}) == ErrorCode::kInvalidArgument);
  for (const char* bad : {":11311", "n1:", "n1:http", "n1:0", "n1:65536", "fd00::1", "[fd00::1", "[]:1", "[::1]x",
                          "n1\x1b[2J", "n 1", "n1\n:5"}) {
    CAPTURE(bad);
    CHECK(refusal_of({.peers = {bad}, .bytes_per_peer = 1}) == ErrorCode::kInvalidArgument);
  }
  CHECK(refusal_of({.peers = {"127.0.0.1", "127.0.0.1:11311"}, .bytes_per_peer = 1}) == ErrorCode::kInvalidArgument);
  CHECK(refusal_of({.peers = std::vector<std::string>(1025, "x"), .bytes_per_peer = 1}) == ErrorCode::kInvalidArgument);
}

TEST_CASE("peer address: private networks are told from public ones") {
  for (const char* good : {"127.0.0.1", "10.1.2.3:99", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.0.1",
                           "100.64.0.1", "[::1]:5", "[fd00::1]", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"}) {
    CAPTURE(good);
    CHECK(headrace::cache::resolve_peer(good).has_value());
  }
  CHECK(*headrace::cache::full_peer_name("n1") == "n1:11311");
  CHECK(*headrace::cache::full_peer_name("[fd00::1]") == "[fd00::1]:11311");
  CHECK(*headrace::cache::full_peer_name("n1:5") == "n1:5");
  for (const char* bad : {"172.32.0.1", "11.0.0.1", "192.169.0.1", "100.128.0.1", "[::ffff:8.8.8.8]:1", "0.0.0.0"}) {
    CAPTURE(bad);
    CHECK_FALSE(headrace::cache::resolve_peer(bad).has_value());
  }
}

TEST_CASE("shared tier: works with memcached, small files, whole ones of 8 MiB and chunks") {
  const Memcached memcached;
  Cluster cluster(10);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{8} << 20, (std::size_t{20} << 20) + 5}) {
    const std::string path = "c/large" + std::to_string(bytes) + ".jpg";
    cluster.contents[path] = as_text(pattern_bytes(bytes, bytes));
    cluster.dir.write(path, cluster.contents[path]);
  }
  const auto first = cluster.node({memcached.name()});
  for (int i = 0; i < 200 && stats_of(*first, TierKind::kShared).writes < 18; ++i) {  // until it listens and has all
    cluster.check_all(*first);
    for (EntryId entry = 0; entry < first->catalog().entry_count(); ++entry) first->drop(entry);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto second = cluster.node({memcached.name()});
  cluster.check_all(*second);
  CHECK(stats_of(*second, TierKind::kSource).hits == 0);
  CHECK(stats_of(*second, TierKind::kShared).corrupt == 0);
}

}  // namespace shared_tier_test
