// SPDX-License-Identifier: Apache-2.0
// What a node says to the others of the peers that it was named, so that a list that differs does not stay unnoticed.
// Each leaves it with the peer that it is itself, and looks at what the others left with theirs.
//
//   const PeerStatement own = make_statement(names, bytes_per_peer, owners);
//   put(statement_key(data_set, own_name), as_bytes(own));
//   compare(own, statement_from(got));
//
// Thread-safety: pure functions, plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "headrace/cache/shared/peer_placement.h"
#include "headrace/cache/shared/shared_value.h"

namespace headrace::cache {

struct PeerStatement {
  std::uint64_t peers = 0;      // hash of the names and of the memory of each
  std::uint64_t placement = 0;  // hash of where the files lie, which depends on what the node has listed, too
};
inline constexpr std::size_t kStatementBytes = 16;
using StatementBytes = std::array<std::byte, kStatementBytes>;

// `names`: sorted.
[[nodiscard]] PeerStatement make_statement(std::span<const std::string> names, std::uint64_t bytes_per_peer,
                                           std::span<const PeerIndex> owners);
[[nodiscard]] SharedKey statement_key(std::string_view data_set, std::string_view peer);
[[nodiscard]] StatementBytes as_bytes(const PeerStatement& statement);
[[nodiscard]] PeerStatement statement_from(const StatementBytes& bytes);

enum class Agreement : std::uint8_t { kNotKnown, kSame, kOtherPeers, kOtherFiles };
[[nodiscard]] Agreement compare(const PeerStatement& own, const PeerStatement& other);
[[nodiscard]] std::string_view name_of(Agreement agreement);  // kNotKnown: empty

}  // namespace headrace::cache
