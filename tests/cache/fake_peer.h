// SPDX-License-Identifier: Apache-2.0
// A peer of the shared tier for tests: speaks as much of memcached's meta protocol as headrace does, and misbehaves on
// demand.
//
//   FakePeer peer;
//   store.open({.shared = {.peers = {peer.name()}, .bytes_per_peer = 1 << 30}});
//   peer.behave(FakePeer::Way::kFlipsBits);
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "headrace/io/unique_fd.h"

namespace headrace::test {

class FakePeer {
 public:
  enum class Way {
    kWell,
    kIsSilent,    // takes requests and never answers
    kHolds,       // answers a get when it is to behave otherwise
    kBreaksOff,   // closes the connection in the middle of a value
    kFlipsBits,   // in the payloads that it gives
    kGivesOther,  // another key's value
    kIsShort,     // leaves out the last byte of a value, with a size to match
    kIsFull,      // stores nothing
    kTalksNonsense,
    kNeverHas,    // says of each missing value that somebody else is about to store it
    kStoresLate,  // stores a value when it was asked for twice meanwhile
  };

  FakePeer();
  ~FakePeer();
  FakePeer(const FakePeer&) = delete;
  FakePeer& operator=(const FakePeer&) = delete;

  [[nodiscard]] std::string name() const { return "127.0.0.1:" + std::to_string(port_); }
  void behave(Way way) { way_.store(way); }
  [[nodiscard]] unsigned gets() const { return gets_.load(); }
  [[nodiscard]] unsigned renewals() const { return renewals_.load(); }
  void say_seconds_left(int seconds) { seconds_left_.store(seconds); }  // of each value
  [[nodiscard]] std::size_t size() const;
  void spoil();    // flips a bit of each value that it has
  void hang_up();  // closes all connections, and takes new ones

 private:
  void accept_all();
  void serve(int fd);
  [[nodiscard]] bool answer(int fd, const std::string& line, std::string& in);
  [[nodiscard]] bool give(int fd, const std::string& key);

  io::UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<Way> way_ = Way::kWell;
  std::atomic<unsigned> gets_ = 0;
  std::atomic<unsigned> renewals_ = 0;
  std::atomic<int> seconds_left_ = 86'400;
  std::atomic<bool> closing_ = false;
  mutable std::mutex mutex_;
  std::condition_variable asked_;
  std::map<std::string, int> asked_meanwhile_;  // how often, since somebody was told to read the source
  std::map<std::string, std::string> values_;
  std::vector<int> open_;
  std::vector<std::thread> connections_;
  std::thread acceptor_;
};

}  // namespace headrace::test
