// SPDX-License-Identifier: Apache-2.0
// Whose program listens at an address of this machine. In the clear, whoever listens first at a node's address could
// give other bytes with right checksums to the mount of another user, root's included.
//
// Thread-safety: any thread.
#pragma once

#include <optional>
#include <string_view>

#include <sys/types.h>

#include "headrace/cache/shared/peer_address.h"

namespace headrace::cache {

// The user whose program listens at an address of this machine, where that is somebody who logs in, and not the user of
// this process. nullopt: nobody listens, or root, this user or a user of the system (below 1000, nobody, those that
// systemd makes up), or it is the address of another machine.
[[nodiscard]] std::optional<uid_t> foreign_listener(const PeerAddress& address);

// The same of `table`, the text of /proc/net/tcp or tcp6.
[[nodiscard]] std::optional<uid_t> foreign_listener_in(std::string_view table, const PeerAddress& address, uid_t own);

}  // namespace headrace::cache
