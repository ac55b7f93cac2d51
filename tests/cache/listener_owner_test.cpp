// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/listener_owner.h"

#include <string>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/cache/shared/peer_address.h"

namespace headrace::cache::listener_owner_test {
namespace {

constexpr uid_t kSelf = 1000;
constexpr uid_t kOther = 1001;

PeerAddress address_of(const std::string& name) {
  return resolve_peer(name).value().front();
}

// A line of /proc/net/tcp as proc(5) has it; 11311 is 2C2F.
std::string line(const std::string& local, const std::string& state, uid_t user) {
  return fmt::format("   0: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 {:5}        0 4711 1\n", local,
                     state, user);
}

TEST_CASE("whose program listens at an address is read from the kernel's table of sockets") {
  const std::string head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
  const PeerAddress loopback = address_of("127.0.0.1:11311");
  const auto found = [&](const std::string& lines, const PeerAddress& address) {
    return foreign_listener_in(head + lines, address, kSelf);
  };
  CHECK(found(line("0100007F:2C2F", "0A", kOther), loopback) == kOther);
  CHECK(found(line("00000000:2C2F", "0A", kOther), loopback) == kOther);  // at any address
  CHECK(found(line("0000000000000000FFFF00000100007F:2C2F", "0A", kOther), loopback) == kOther);
  CHECK(found(line("00000000000000000000000000000000:2C2F", "0A", kOther), loopback) == kOther);
  const PeerAddress v6 = address_of("[::1]:11311");
  CHECK(found(line("00000000000000000000000001000000:2C2F", "0A", kOther), v6) == kOther);
  CHECK_FALSE(found(line("0100007F:2C30", "0A", kOther), loopback));  // another port
  CHECK_FALSE(found(line("0200007F:2C2F", "0A", kOther), loopback));  // another address
  CHECK_FALSE(found(line("0100007F:2C2F", "01", kOther), loopback));  // a connection
  for (const uid_t good : {kSelf, uid_t{0}, uid_t{104}, uid_t{65534}, uid_t{61200}}) {
    CHECK_FALSE(found(line("0100007F:2C2F", "0A", good), loopback));
  }
  CHECK_FALSE(found("nonsense\n", loopback));
}

}  // namespace
}  // namespace headrace::cache::listener_owner_test
