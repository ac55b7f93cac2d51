// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
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

tl::unexpected<io::Error> malformed(std::string_view peer, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("peer '{}': {}", peer, why));
}

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  return code == std::errc() && end == text.data() + text.size() && port != 0;
}

io::Result<HostAndPort> split(std::string_view peer) {
  HostAndPort parts{.host = {}, .port = std::string(kPeerPort)};
  std::string_view rest;
  if (peer.starts_with('[')) {
    const std::size_t end = peer.find(']');
    if (end == std::string_view::npos) return malformed(peer, "write [ADDRESS]:PORT");
    parts.host = peer.substr(1, end - 1);
    rest = peer.substr(end + 1);
  } else {
    const std::size_t colon = peer.find(':');
    if (colon != peer.rfind(':')) return malformed(peer, "write an IPv6 address as [ADDRESS]:PORT");
    parts.host = peer.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : peer.substr(colon);
  }
  if (parts.host.empty()) return malformed(peer, "write HOST:PORT");
  const auto is_letter = [](unsigned char letter) { return letter > ' ' && letter != 0x7f; };
  if (!std::ranges::all_of(parts.host, is_letter)) return malformed(peer, "a name has no spaces or control characters");
  if (rest.empty()) return parts;
  if (rest.front() != ':' || !is_port(rest.substr(1))) return malformed(peer, "a port is a number from 1 to 65535");
  parts.port = rest.substr(1);
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

bool is_number(std::string_view peer) {
  const io::Result<HostAndPort> parts = split(peer);
  if (!parts) return false;
  std::array<std::byte, sizeof(in6_addr)> address = {};
  return ::inet_pton(AF_INET, parts->host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, parts->host.c_str(), address.data()) == 1;
}

io::Result<std::string> full_peer_name(std::string_view peer) {
  HEADRACE_TRY(parts, split(peer));
  const bool is_v6 = parts.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", parts.host, parts.port) : fmt::format("{}:{}", parts.host, parts.port);
}

io::Result<std::vector<PeerAddress>> resolve_peer(std::string_view peer, Reach reach) {
  HEADRACE_TRY(parts, split(peer));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found); code != 0) {
    return make_error(ErrorCode::kNotFound, fmt::format("peer '{}': {}", peer, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<PeerAddress> addresses;
  for (const addrinfo* it = found; it != nullptr && addresses.size() < kAddressesMax; it = it->ai_next) {
    PeerAddress address;
    if (it->ai_addrlen > sizeof address.socket) continue;
    std::memcpy(&address.socket, it->ai_addr, it->ai_addrlen);
    address.length = it->ai_addrlen;
    if (reach == Reach::kAnywhere || is_private(address)) addresses.push_back(address);
  }
  if (!addresses.empty()) return addresses;
  return malformed(peer, "its address is public, and peers talk in the clear; use a private network, or --peer-tls");
}

}  // namespace headrace::cache
