// SPDX-License-Identifier: Apache-2.0
// Where a peer of the shared tier is reached.
//
//   HEADRACE_TRY(name, full_peer_name("node3"));        // node3:11311
//   HEADRACE_TRY(addresses, resolve_peer(name));
//   connect(fd, &addresses[0].socket.generic, addresses[0].length);
//
// Whoever can write into the shared tier can poison what is trained on. So where it talks in the clear, only addresses
// that the Internet does not route are accepted: loopback, private networks (RFC 1918, RFC 4193), link-local ones, and
// the shared address space of providers (RFC 6598).
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// A host has an address or two of each kind; more than this nobody tries in turn.
inline constexpr std::size_t kAddressesMax = 8;

// HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT, with the port that it has or kPeerPort: one name for one peer, however
// it is written. Errors: kInvalidArgument.
[[nodiscard]] io::Result<std::string> full_peer_name(std::string_view peer);

enum class Reach : std::uint8_t { kPrivate, kAnywhere };

// The addresses of a name as above within `reach`, at least one and at most kAddressesMax, in the resolver's
// order. A host may have several, and listen on one. Asks the resolver, and blocks.
// Errors: kInvalidArgument (not an address, only public ones), kNotFound (the name is not known).
[[nodiscard]] io::Result<std::vector<PeerAddress>> resolve_peer(std::string_view peer, Reach reach = Reach::kPrivate);
[[nodiscard]] bool is_private(const PeerAddress& address);
// Whether the host of a name as above is written as an address, so that no resolver is asked.
[[nodiscard]] bool is_number(std::string_view peer);

}  // namespace headrace::cache
