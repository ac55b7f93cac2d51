// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/listener_owner.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

constexpr const char* kListens = "0A";  // TCP_LISTEN, as proc(5) has the states

bool is_own_or_of_system(uid_t user, uid_t own) {
  const bool is_made_up = user >= 61184 && user <= 65519;  // systemd's DynamicUser=
  return user == own || user < 1000 || user == 65534 || is_made_up;
}

// As the table writes an address: words of 32 bits as this machine has them in memory.
std::string in_words(const void* address, std::size_t bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(address) + at, sizeof word);
    text += fmt::format("{:08X}", word);
  }
  return text;
}

// Whether a listener there, "ADDRESS:PORT" in figures of 16, is asked by who connects to `address`.
bool is_asked(std::string_view listener, const PeerAddress& address) {
  const bool is_v6 = address.socket.generic.sa_family == AF_INET6;
  const std::uint16_t port = ntohs(is_v6 ? address.socket.v6.sin6_port : address.socket.v4.sin_port);
  if (!listener.ends_with(fmt::format(":{:04X}", port))) return false;
  listener.remove_suffix(5);
  if (listener.find_first_not_of('0') == std::string_view::npos) return true;  // any address
  if (is_v6) return listener == in_words(&address.socket.v6.sin6_addr, sizeof(in6_addr));
  in6_addr mapped = {};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &address.socket.v4.sin_addr, sizeof(in_addr));
  return listener == in_words(&address.socket.v4.sin_addr, sizeof(in_addr)) ||
         listener == in_words(&mapped, sizeof mapped);
}

// A socket for datagrams is given the address that it would send from, and sends nothing.
bool is_of_this_machine(const PeerAddress& address) {
  const io::UniqueFd fd(::socket(address.socket.generic.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  PeerAddress from;
  from.length = sizeof from.socket;
  if (!fd.valid() || ::connect(fd.get(), &address.socket.generic, address.length) != 0 ||
      ::getsockname(fd.get(), &from.socket.generic, &from.length) != 0) {
    return false;
  }
  if (address.socket.generic.sa_family == AF_INET6) {
    return std::memcmp(&from.socket.v6.sin6_addr, &address.socket.v6.sin6_addr, sizeof(in6_addr)) == 0;
  }
  const std::uint32_t host = ntohl(address.socket.v4.sin_addr.s_addr);
  const bool is_loopback = host >> 24 == IN_LOOPBACKNET;  // all of 127/8 is asked from 127.0.0.1
  return is_loopback || from.socket.v4.sin_addr.s_addr == address.socket.v4.sin_addr.s_addr;
}

std::string text_of(const char* file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

std::optional<uid_t> foreign_listener_in(std::string_view table, const PeerAddress& address, uid_t own) {
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);  // number: local remote state queues timer retransmits uid ...
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    std::string other;
    uid_t user = 0;
    words >> number >> local >> remote >> state >> other >> other >> other >> user;
    if (!words || state != kListens || !is_asked(local, address)) continue;
    if (!is_own_or_of_system(user, own)) return user;
  }
  return std::nullopt;
}

std::optional<uid_t> foreign_listener(const PeerAddress& address) {
  if (!is_of_this_machine(address)) return std::nullopt;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (const auto user = foreign_listener_in(text_of(table), address, ::geteuid())) return user;
  }
  return std::nullopt;
}

}  // namespace headrace::cache
