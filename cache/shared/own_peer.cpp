// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/own_peer.h"

#include <cerrno>
#include <optional>

#include <fmt/format.h>
#include <netdb.h>

#include "headrace/cache/shared/listener_owner.h"
#include "headrace/cache/shared/peer_address.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

// 0: a program may listen there; else why not: EADDRNOTAVAIL where it is no address of this machine.
int try_to_bind(const PeerAddress& address) {
  const io::UniqueFd fd(::socket(address.socket.generic.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  const int one = 1;  // what has ended lately keeps a port for a minute, which only a new listener may ignore
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  return ::bind(fd.get(), &address.socket.generic, address.length) == 0 ? 0 : errno;
}

std::optional<OwnPeer> as_own(const std::string& name, const PeerAddress& address) {
  const int failure = try_to_bind(address);
  if (failure != 0 && failure != EADDRINUSE) return std::nullopt;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(&address.socket.generic, address.length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return std::nullopt;
  }
  const bool is_v6 = address.socket.generic.sa_family == AF_INET6;
  return OwnPeer{.name = name,
                 .address = is_v6 ? fmt::format("[{}]", host) : std::string(host),
                 .port = port,
                 .is_served = failure == EADDRINUSE,
                 .foreign_user = foreign_listener(address)};
}

}  // namespace

io::Result<std::vector<OwnPeer>> find_own_peers(std::span<const std::string> peers, PeerTalk talk) {
  std::vector<OwnPeer> own;
  for (const std::string& peer : peers) {
    HEADRACE_TRY(name, full_peer_name(peer));
    io::Result<std::vector<PeerAddress>> addresses =
        resolve_peer(name, talk == PeerTalk::kTls ? Reach::kAnywhere : Reach::kPrivate);
    if (!addresses && addresses.error().code == io::ErrorCode::kNotFound) continue;
    if (!addresses) return io::forward_error(std::move(addresses));
    for (const PeerAddress& address : *addresses) {
      std::optional<OwnPeer> found = as_own(name, address);
      if (!found) continue;
      own.push_back(std::move(*found));
      break;
    }
  }
  return own;
}

}  // namespace headrace::cache
