// SPDX-License-Identifier: Apache-2.0
// A list of peers that changes while it is used, and one that differs from node to node.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "headrace/cache/shared/peer_figures.h"
#include "headrace/cache/shared/peer_ring.h"
#include "headrace/cache/shared/peer_statement.h"
#include "headrace/cache/store.h"
#include "headrace/io/slow_calls.h"

#include "fake_peer.h"
#include "sharing_nodes.h"
#include "support/temp_dir.h"

namespace peer_change_test {
namespace {

using headrace::cache::EntryId;
using headrace::cache::PeerStats;
using headrace::cache::Status;
using headrace::cache::Store;
using headrace::cache::TierKind;
using headrace::io::ErrorCode;
using headrace::test::Cluster;
using headrace::test::FakePeer;
using headrace::test::stats_of;
using Way = FakePeer::Way;

void forget_all(Store& store) {
  for (EntryId entry = 0; entry < store.catalog().entry_count(); ++entry) store.drop(entry);
}

// Up to half a minute.
template <typename Condition>
bool wait_until(const Condition& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

void read_anew(const Cluster& cluster, Store& store) {
  forget_all(store);
  cluster.check_all(store);
}

// A busy machine makes a peer late, which is an error and a read of the source; what it lacks then it is given later.
void read_until_held(const Cluster& cluster, Store& store, const FakePeer& peer, std::size_t files) {
  CHECK(wait_until([&] {
    read_anew(cluster, store);
    return peer.size() == files;
  }));
}

// Whether one pass over all files comes from the peers but for `others`; the first passes may find a file in memory
// still, because a peer is just being given it.
bool come_from_peers(const Cluster& cluster, Store& store, std::uint64_t others = 0) {
  return wait_until([&] {
    const std::uint64_t before = stats_of(store, TierKind::kShared).hits;
    read_anew(cluster, store);
    return stats_of(store, TierKind::kShared).hits - before >= cluster.contents.size() - others;
  });
}

std::string list_of(const Store& store, const std::string& peer) {
  for (const PeerStats& stats : store.stats().peers) {
    if (stats.name == peer) return stats.list;
  }
  return "not a peer";
}

Status share(Store& store, EntryId entry) {
  std::promise<Status> ended;
  store.share(entry, [&](Status status) { ended.set_value(std::move(status)); });
  return ended.get_future().get();
}

// Sockets of this process that lead to the peer.
std::size_t connections_to(const FakePeer& peer) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in other = {};
    socklen_t length = sizeof other;
    const int fd = std::stoi(entry.path().filename());
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &length) != 0 || other.sin_family != AF_INET) continue;
    count += peer.name().ends_with(":" + std::to_string(ntohs(other.sin_port))) ? 1 : 0;
  }
  return count;
}

// Reads of all files at once: every second one ahead, for the others somebody waits.
class ReadsUnderWay {
 public:
  ReadsUnderWay(const Cluster& cluster, Store& store) : missing_(cluster.contents.size()) {
    bool waits = false;
    for (const auto& [path, content] : cluster.contents) {
      waits = !waits;
      store.read_async(
          *store.catalog().find(path),
          [this, &wanted = content](const auto& view) {
            const bool is_right =
                view && headrace::test::as_text({view->bytes().begin(), view->bytes().end()}) == wanted;
            right_ += is_right ? 1 : 0;
            if (--missing_ == 0) ended_.set_value();
          },
          waits ? headrace::cache::ReadHint::kNow : headrace::cache::ReadHint::kAhead);
    }
  }
  // How many had the right bytes; a minute at most.
  unsigned right() {
    REQUIRE(ended_.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready);
    return right_;
  }

 private:
  std::atomic<std::size_t> missing_;
  std::atomic<unsigned> right_ = 0;
  std::promise<void> ended_;
};

}  // namespace

TEST_CASE("peer change: reads go on while the list changes, and end with the right bytes") {
  FakePeer one;
  FakePeer two;
  FakePeer three;
  const Cluster cluster;
  const auto node = cluster.node({one.name(), two.name()});
  const std::vector<std::vector<std::string>> lists = {
      {one.name()}, {two.name(), three.name()}, {three.name(), one.name(), two.name()}, {three.name()}};
  std::atomic<bool> ended = false;
  std::vector<std::thread> readers;
  std::atomic<unsigned> wrong = 0;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!ended.load()) {
        for (const auto& [path, content] : cluster.contents) {
          const EntryId entry = *node->catalog().find(path);
          const auto view = node->read(entry);
          const bool is_right =
              view && headrace::test::as_text({view->bytes().begin(), view->bytes().end()}) == content;
          wrong += is_right ? 0 : 1;
          node->drop(entry);
        }
      }
    });
  }
  for (int round = 0; round < 10; ++round) {
    for (const auto& list : lists) {
      const unsigned gets = one.gets() + two.gets() + three.gets();
      CHECK(node->set_peers(list).has_value());
      CHECK(wait_until([&] { return one.gets() + two.gets() + three.gets() > gets; }));
    }
  }
  ended = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
  CHECK(node->stats().failures == 0);
  CHECK(stats_of(*node, TierKind::kShared).hits > 0);
}

TEST_CASE("peer change: a peer that comes is given its part, and one that has left is asked no more") {
  FakePeer one;
  FakePeer two;
  const Cluster cluster;
  const auto node = cluster.node({one.name()});
  read_until_held(cluster, *node, one, cluster.contents.size());
  REQUIRE(node->set_peers({one.name(), two.name()}).has_value());
  const std::uint64_t part = node->stats().peers[two.name() < one.name() ? 0 : 1].samples;
  CHECK(part > 0);
  CHECK(part < cluster.contents.size());
  CHECK(come_from_peers(cluster, *node, part));
  read_until_held(cluster, *node, two, part);

  REQUIRE(node->set_peers({two.name()}).has_value());
  const std::uint64_t hits = stats_of(*node, TierKind::kShared).hits;
  const unsigned gets = one.gets();
  read_until_held(cluster, *node, two, cluster.contents.size());
  CHECK(one.gets() == gets);
  CHECK(node->stats().peers.size() == 1);
  CHECK(stats_of(*node, TierKind::kShared).hits >= hits);  // what has left is counted all the same
}

TEST_CASE("peer change: what was asked of a peer that leaves still comes from it") {
  FakePeer one;
  FakePeer two;
  const Cluster cluster(1);
  const auto node = cluster.node({one.name()});
  const EntryId entry = *node->catalog().find("c/0.jpg");
  // Where all this takes longer than a peer may be silent, it is tried again.
  CHECK(wait_until([&] {
    REQUIRE(node->set_peers({one.name()}).has_value());
    read_until_held(cluster, *node, one, 1);
    REQUIRE(come_from_peers(cluster, *node));
    forget_all(*node);
    one.behave(Way::kHolds);
    const unsigned gets = one.gets();
    std::promise<TierKind> from;
    node->read_async(
        entry, [&](const auto& view) { from.set_value(view->served_from()); }, headrace::cache::ReadHint::kAhead);
    REQUIRE(wait_until([&] { return one.gets() > gets; }));
    REQUIRE(node->set_peers({two.name()}).has_value());
    one.behave(Way::kWell);
    return from.get_future().get() == TierKind::kShared;
  }));
}

TEST_CASE("peer change: what is on the way to a peer that leaves ends well however that one goes on, and is closed") {
  // kHolds: it hangs up before it answers.
  for (const Way way : {Way::kWell, Way::kIsSilent, Way::kBreaksOff, Way::kTalksNonsense, Way::kHolds}) {
    CAPTURE(static_cast<int>(way));
    FakePeer one;
    FakePeer two;
    const Cluster cluster;
    const std::size_t files = cluster.contents.size();
    const auto node = cluster.node({one.name()});
    read_until_held(cluster, *node, one, files);
    CHECK(come_from_peers(cluster, *node));
    forget_all(*node);
    one.behave(Way::kHolds);
    const unsigned gets = one.gets();
    ReadsUnderWay reads(cluster, *node);
    CHECK(wait_until([&] { return one.gets() > gets; }));
    CHECK(connections_to(one) > 0);
    CHECK(node->set_peers({two.name()}).has_value());
    if (way == Way::kHolds) one.hang_up();
    one.behave(way == Way::kHolds ? Way::kWell : way);
    CHECK(reads.right() == files);
    CHECK(node->stats().failures == 0);
    CHECK(wait_until([&] { return connections_to(one) == 0; }));
    read_until_held(cluster, *node, two, files);  // nothing that has ended keeps one from there
  }
}

TEST_CASE("peer change: who was to read a file for others reads it, though the peer that said so has left") {
  FakePeer one;
  FakePeer two;
  const Cluster cluster(1);
  const auto first = cluster.node({one.name()});
  const auto second = cluster.node({one.name()});
  one.behave(Way::kHolds);
  ReadsUnderWay reads(cluster, *first);
  CHECK(wait_until([&] { return one.gets() == 1; }));
  ReadsUnderWay others(cluster, *second);
  CHECK(wait_until([&] { return one.gets() >= 2; }));
  CHECK(first->set_peers({two.name()}).has_value());
  CHECK(second->set_peers({two.name()}).has_value());
  one.behave(Way::kWell);  // says to one of them that it is to read, to the other that somebody does
  CHECK(reads.right() == 1);
  CHECK(others.right() == 1);
  CHECK(wait_until([&] { return two.size() == 1; }));
  CHECK(one.size() == 0);
  CHECK(wait_until([&] { return connections_to(one) == 0; }));
  const auto third = cluster.node({two.name()});
  CHECK(come_from_peers(cluster, *third));
  CHECK(first->stats().failures + second->stats().failures == 0);
}

TEST_CASE("peer change: a list that cannot be meant leaves all as it was") {
  FakePeer one;
  const Cluster cluster;
  const auto node = cluster.node({one.name()});
  read_until_held(cluster, *node, one, cluster.contents.size());
  for (const std::vector<std::string>& list : {std::vector<std::string>{one.name(), one.name()},
                                               {one.name(), "8.8.8.8:11311"},
                                               {"n1:http"},
                                               std::vector<std::string>(1025, "x")}) {
    const Status refused = node->set_peers(list);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(come_from_peers(cluster, *node));

  const headrace::test::TempDir alone;
  alone.write("c/a.jpg", "a");
  const auto store = Store::open({.source = alone.path()});
  REQUIRE(store.has_value());
  CHECK((*store)->set_peers({one.name()}).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("peer ring: a name server that does not answer is not waited for, and its peers are looked up later") {
  using headrace::cache::PeerRing;
  const Cluster cluster;
  const auto node = cluster.node({"127.0.0.1:1"});
  const std::vector<std::string> names = {"127.0.0.1:1", "localhost:2"};
  const auto answer = std::make_shared<std::promise<void>>();
  headrace::io::SlowCalls resolver("hr-names");
  resolver.run([waits = answer->get_future().share()] { waits.wait(); });
  const auto make = [&](const std::shared_ptr<const PeerRing>& before) {
    return PeerRing::make(
        {.names = names, .catalog = node->catalog(), .data_set = "d", .bytes_per_peer = 1 << 20, .resolver = resolver},
        before);
  };
  const auto first = make(nullptr);
  REQUIRE(first.has_value());
  CHECK_FALSE((*first)->peers()[0]->is_down());
  CHECK((*first)->peers()[1]->is_down());
  CHECK((*first)->peers()[1]->reason().find("name server does not answer") != std::string::npos);
  answer->set_value();
  CHECK(wait_until([&] {
    const auto later = make(*first);
    return later.has_value() && !(*later)->peers()[1]->is_down();
  }));
}

TEST_CASE("peer agreement: nodes that were named other peers say so, and no more once they are the same") {
  FakePeer one;
  FakePeer two;
  const Cluster cluster;
  const auto first = cluster.node({one.name(), two.name()}, one.name());
  CHECK(wait_until([&] { return one.size() == 1; }));  // it says what it was named
  const auto second = cluster.node({one.name()}, two.name());
  CHECK(wait_until([&] { return list_of(*second, one.name()) == "other peers"; }));
  CHECK(second->set_peers({two.name(), one.name()}).has_value());
  CHECK(wait_until([&] { return list_of(*second, one.name()) == "same"; }));
  CHECK(wait_until([&] { return two.size() == 1; }));
  CHECK(first->set_peers({one.name(), two.name()}).has_value());  // looks at once
  CHECK(wait_until([&] { return list_of(*first, two.name()) == "same"; }));
  CHECK(list_of(*first, one.name()) == "same");  // its own
}

TEST_CASE("peer agreement: nodes that have listed other files say so") {
  FakePeer one;
  FakePeer two;
  const Cluster cluster;
  const std::vector<std::string> peers = {one.name(), two.name()};
  const auto first = cluster.node(peers, one.name());
  CHECK(wait_until([&] { return one.size() == 1; }));
  cluster.dir.write("c/new.jpg", "new");
  const auto second = cluster.node(peers, two.name());
  CHECK(wait_until([&] { return list_of(*second, one.name()) == "other files"; }));
}

TEST_CASE("peer statement: memory, names and files count") {
  using headrace::cache::Agreement;
  using headrace::cache::compare;
  using headrace::cache::make_statement;
  const std::vector<std::string> names = {"n1:1", "n2:1"};
  const std::vector<headrace::cache::PeerIndex> owners = {0, 1, 1};
  const std::vector<headrace::cache::PeerIndex> others = {0, 1, 0};
  const auto own = make_statement(names, 5, owners);
  CHECK(compare(own, make_statement(names, 5, owners)) == Agreement::kSame);
  CHECK(compare(own, make_statement(names, 6, owners)) == Agreement::kOtherPeers);
  CHECK(compare(own, make_statement(std::vector<std::string>{"n1:1"}, 5, owners)) == Agreement::kOtherPeers);
  CHECK(compare(own, make_statement(names, 5, others)) == Agreement::kOtherFiles);
  CHECK(compare(own, headrace::cache::statement_from(headrace::cache::as_bytes(own))) == Agreement::kSame);
  CHECK(headrace::cache::statement_key("/data", "n1:1") != headrace::cache::statement_key("/data", "n2:1"));
}

TEST_CASE("share: the peer has each file that it is to hold, though nobody has read it") {
  FakePeer peer;
  const Cluster cluster(70, 200'000);
  const auto node = cluster.node({peer.name()});
  const auto share_all = [&] {
    for (EntryId entry = 0; entry < node->catalog().entry_count(); ++entry) {
      if (node->catalog().is_file(entry)) CHECK(wait_until([&] { return share(*node, entry).has_value(); }));
    }
  };
  share_all();
  CHECK(peer.size() == cluster.contents.size());
  const std::uint64_t reads = stats_of(*node, TierKind::kSource).hits;
  CHECK(reads >= cluster.contents.size());
  forget_all(*node);
  share_all();
  const auto shared = stats_of(*node, TierKind::kShared);
  CHECK(stats_of(*node, TierKind::kSource).hits <= reads + shared.errors);
}

TEST_CASE("share: says why a peer does not have a file") {
  FakePeer peer;
  peer.behave(Way::kIsFull);
  const Cluster cluster(2);
  const auto node = cluster.node({peer.name()});
  const EntryId entry = *node->catalog().find("c/0.jpg");
  CHECK(wait_until([&] { return share(*node, entry).error().code == ErrorCode::kNoSpace; }));
  std::string gone;
  {
    const FakePeer other;
    gone = other.name();
  }
  CHECK(node->set_peers({gone}).has_value());
  forget_all(*node);
  CHECK(share(*node, entry).error().code == ErrorCode::kBusy);
}

TEST_CASE("peer figures: bytes per second of the last ten seconds") {
  headrace::cache::PeerFigures figures;
  CHECK(figures.bytes_per_second(1000) == 0);
  for (std::int64_t second = 980; second < 1000; ++second) figures.note_given(500, second);
  figures.note_given(500, 999);
  figures.note_given(9'000, 1000);  // which is not over yet
  CHECK(figures.bytes_per_second(1000) == doctest::Approx(550));
  CHECK(figures.bytes_per_second(1001) == doctest::Approx(1400));
  CHECK(figures.bytes_per_second(1011) == 0);
}

}  // namespace peer_change_test
