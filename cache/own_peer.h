// SPDX-License-Identifier: Apache-2.0
// Which of the peers of a shared tier is this machine.
//
//   HEADRACE_TRY(own, find_own_peers({"n1", "n2"}, tls));
//   if (own.size() == 1 && !own.front().is_served) start_memcached(own.front().address, own.front().port);
//
// Thread-safety: any thread. Asks the resolver, and blocks.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "headrace/io/result.h"

namespace headrace::cache {

struct OwnPeer {
  std::string name;     // in full: HOST:PORT
  std::string address;  // of this machine, in figures; an IPv6 one in brackets
  std::string port;
  bool is_served = false;  // somebody listens there
  // Who, where that is another user who logs in, and neither root nor a user of the system.
  std::optional<uid_t> foreign_user;
};

enum class PeerTalk { kClear, kTls };

// The peers whose name leads to an address of this machine. In the clear, public addresses do not count. Names that
// nobody knows are left out. Errors: kInvalidArgument (not a name; in the clear, only public addresses).
[[nodiscard]] io::Result<std::vector<OwnPeer>> find_own_peers(std::span<const std::string> peers, PeerTalk talk);

}  // namespace headrace::cache
