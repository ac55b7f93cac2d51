// SPDX-License-Identifier: Apache-2.0
// One connection to one peer, a memcached: requests go out in order, and answers come back in that order.
//
//   PeerConnection connection(address);
//   connection.submit(std::move(request));         // its `done` runs exactly once
//   if (!connection.advance()) ...                 // the socket is ready; false: the connection is of no use any more
//
// The protocol is memcached's meta commands (doc/protocol.txt of memcached 1.6): `mg KEY v` asks for a value, `ms`
// stores one. A value arrives straight in the buffer that the reader gets. The first who asks in vain is to read the
// source; whoever asks meanwhile is told that the value is coming (`N`: "a token to recache").
//
// Thread-safety: none; one thread drives it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "headrace/cache/shared/peer_address.h"
#include "headrace/cache/shared/peer_stream.h"
#include "headrace/cache/shared/shared_value.h"

namespace headrace::cache {

// What nobody has asked for since yesterday is of a job that has ended.
inline constexpr unsigned kSecondsToLive = 24 * 60 * 60;

struct PeerRequest {
  enum class Kind : std::uint8_t { kGet, kPut, kRenew };
  enum class Outcome : std::uint8_t {
    kDone,    // got or stored
    kMiss,    // not there
    kComing,  // not there, but somebody who asked before is reading the source
    kWrong,   // something is there that headrace did not store under this key, or that has changed since
    kFull,    // the peer has no room for it
    kFailed,  // the connection broke, or took too long
  };
  using Clock = std::chrono::steady_clock;

  Kind kind = Kind::kGet;
  SharedKey key;
  std::span<std::byte> payload;               // kGet: filled; kPut: what is stored. Lasts until `done`.
  SharedHeader header = {};                   // of the value
  unsigned seconds_to_live = kSecondsToLive;  // kPut: of the value
  bool renews = true;                         // kGet: what is asked for lives on
  std::function<void(Outcome)> done;
  Clock::time_point late_at = {};  // set by the connection: when whoever waits is better off with the source
};

class PeerConnection {
 public:
  using Clock = PeerRequest::Clock;

  // Begins to connect. error() tells at once where that is refused. `tls` outlives this; null: in the clear.
  explicit PeerConnection(const PeerAddress& address, const PeerTls* tls = nullptr);
  // What has no answer yet ends as kFailed.
  ~PeerConnection();
  PeerConnection(const PeerConnection&) = delete;
  PeerConnection& operator=(const PeerConnection&) = delete;

  [[nodiscard]] int fd() const { return stream_.fd(); }
  void submit(std::unique_ptr<PeerRequest> request);
  // Sends and receives what goes without waiting. False: it is broken, and error() says why.
  [[nodiscard]] bool advance();
  [[nodiscard]] const std::string& error() const { return stream_.error(); }
  [[nodiscard]] bool wants_to_send() const { return !unsent_.empty() && !stream_.sends_after_reading(); }
  [[nodiscard]] bool idle() const { return unsent_.empty() && unanswered_.empty(); }
  [[nodiscard]] bool was_answered() const { return was_answered_; }  // by a single byte
  // When the peer lets its first request wait too long: it is silent, or slower than a source is. Never while idle.
  [[nodiscard]] Clock::time_point late_at() const;

 private:
  enum class Reading : std::uint8_t { kLine, kValue, kSkip };

  [[nodiscard]] bool send();
  [[nodiscard]] bool receive();
  [[nodiscard]] bool fill();
  [[nodiscard]] bool receive_value();
  [[nodiscard]] bool consume();
  void renew(const SharedKey& key);
  [[nodiscard]] bool on_line(std::string_view line);
  [[nodiscard]] bool on_value(std::string_view line);
  std::size_t take(std::byte* into, std::size_t bytes);
  void note_received();
  void answer(PeerRequest::Outcome outcome);
  bool fail(std::string reason);

  PeerStream stream_;
  Clock::time_point last_byte_;  // that has come, or of a value that is being stored has gone
  bool was_answered_ = false;
  std::uint64_t queued_bytes_ = 0;  // of the payloads of all requests
  std::deque<std::unique_ptr<PeerRequest>> unsent_;
  std::deque<std::unique_ptr<PeerRequest>> unanswered_;
  std::string command_;   // of the first of unsent_; empty: not begun
  std::size_t sent_ = 0;  // of the first of unsent_: of command, header, payload and line end
  Reading reading_ = Reading::kLine;
  std::size_t value_at_ = 0;  // kValue: bytes of header and payload that have come
  bool ends_soon_ = false;    // kValue: its time is half over
  std::uint64_t skip_ = 0;    // kSkip: bytes that are of no use
  PeerRequest::Outcome after_skip_ = PeerRequest::Outcome::kMiss;
  std::array<char, 4096> in_ = {};  // lines, and what of a value came with them
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
};

}  // namespace headrace::cache
