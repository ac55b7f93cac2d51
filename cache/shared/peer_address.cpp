// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_address.h"

#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;

struct HostAndPort {
  std::string host;
  std::string port;
};

HostAndPort split(std::string_view peer) {
  const std::size_t bracket = peer.rfind(']');
  const std::size_t colon = peer.rfind(':');
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  HostAndPort parts{std::string(has_port ? peer.substr(0, colon) : peer),
                    std::string(has_port ? peer.substr(colon + 1) : kPeerPort)};
  if (parts.host.size() >= 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  return parts;
}

bool is_private(const in_addr& address) {
  const std::uint32_t bits = ntohl(address.s_addr);
  const auto within = [bits](std::uint32_t network, unsigned prefix) { return (bits ^ network) >> (32 - prefix) == 0; };
  return within(0x7f000000, 8) || within(0x0a000000, 8) || within(0xac100000, 12) || within(0xc0a80000, 16) ||
         within(0xa9fe0000, 16) || within(0x64400000, 10);
}

bool is_private(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr v4 = {};
    std::memcpy(&v4, address.s6_addr + 12, sizeof v4);
    return is_private(v4);
  }
  return IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_LINKLOCAL(&address) || (address.s6_addr[0] & 0xfe) == 0xfc;
}

}  // namespace

bool is_private(const PeerAddress& address) {
  if (address.socket.generic.sa_family == AF_INET6) return is_private(address.socket.v6.sin6_addr);
  return address.socket.generic.sa_family == AF_INET && is_private(address.socket.v4.sin_addr);
}

io::Result<PeerAddress> resolve_peer(std::string_view peer) {
  const HostAndPort parts = split(peer);
  if (parts.host.empty() || parts.port.empty()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("peer '{}': write HOST:PORT", peer));
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found); code != 0) {
    return make_error(ErrorCode::kNotFound, fmt::format("peer '{}': {}", peer, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  PeerAddress address;
  if (found->ai_addrlen > sizeof address.socket) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("peer '{}': an unknown kind of address", peer));
  }
  std::memcpy(&address.socket, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  if (is_private(address)) return address;
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("peer '{}' has a public address, and peers talk in the clear; use a private network", peer));
}

}  // namespace headrace::cache
