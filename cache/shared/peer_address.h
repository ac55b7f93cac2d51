// SPDX-License-Identifier: Apache-2.0
// Where a peer of the shared tier is reached.
//
//   HEADRACE_TRY(address, resolve_peer("node3:11311"));
//   connect(fd, &address.socket.generic, address.length);
//
// The shared tier talks in the clear, and whoever can write into it can poison what is trained on. So only addresses
// that the Internet does not route are accepted: loopback, private networks (RFC 1918, RFC 4193), link-local ones, and
// the shared address space of providers (RFC 6598).
//
// Thread-safety: any thread.
#pragma once

#include <string>
#include <string_view>

#include <netinet/in.h>
#include <sys/socket.h>

#include "headrace/io/result.h"

namespace headrace::cache {

struct PeerAddress {
  union {
    sockaddr generic;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } socket = {};
  socklen_t length = 0;
};

// memcached's own port is 11211; another one keeps a shared tier apart from a memcached that serves something else.
inline constexpr std::string_view kPeerPort = "11311";

// HOST, HOST:PORT or [ADDRESS]:PORT. Asks the resolver, and blocks.
// Errors: kInvalidArgument (not an address, a public one), kNotFound (the name is not known).
[[nodiscard]] io::Result<PeerAddress> resolve_peer(std::string_view peer);
[[nodiscard]] bool is_private(const PeerAddress& address);

}  // namespace headrace::cache
