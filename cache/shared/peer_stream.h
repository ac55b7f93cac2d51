// SPDX-License-Identifier: Apache-2.0
// The bytes to and from one peer: a socket, in the clear or with TLS over it. Never waits.
//
//   PeerStream stream(address, tls);
//   while (auto sent = stream.send(parts)) ...     // 0: nothing for now; nullopt: broken, and error() says why
//
// Thread-safety: none; one thread drives it. With TLS that thread blocks SIGPIPE: OpenSSL writes by write(2).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <sys/uio.h>

#include "headrace/cache/shared/peer_address.h"
#include "headrace/cache/shared/peer_tls.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

class PeerStream {
 public:
  // Begins to connect. error() tells at once where that is refused. `tls`: null for in the clear.
  PeerStream(const PeerAddress& address, const PeerTls* tls);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& error() const { return error_; }
  // Bytes of the front of `parts`, of which one at least is not empty.
  [[nodiscard]] std::optional<std::size_t> send(std::span<iovec> parts);
  [[nodiscard]] std::optional<std::size_t> receive(std::span<iovec> parts);
  // Whether more can be received than the socket shows.
  [[nodiscard]] bool holds_more() const;
  // Whether sending goes on when the socket can be read, not when it can be written: TLS is not yet agreed on.
  [[nodiscard]] bool sends_after_reading() const { return sends_after_reading_; }
  void fail(std::string reason);

 private:
  [[nodiscard]] std::optional<std::size_t> after_call(ssize_t count);
  [[nodiscard]] std::optional<std::string> said_last();
  [[nodiscard]] std::optional<std::size_t> after_tls(int result, std::size_t bytes);

  io::UniqueFd fd_;
  TlsSession session_;
  std::string error_;
  bool sends_after_reading_ = false;
};

}  // namespace headrace::cache
