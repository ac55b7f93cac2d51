// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_statement.h"

#include <cstring>

#include <xxhash.h>

namespace headrace::cache {

PeerStatement make_statement(std::span<const std::string> names, std::uint64_t bytes_per_peer,
                             std::span<const PeerIndex> owners) {
  std::string listed = std::to_string(bytes_per_peer);
  for (const std::string& name : names) listed += '\n' + name;
  return {.peers = XXH3_64bits(listed.data(), listed.size()),
          .placement = XXH3_64bits(owners.data(), owners.size_bytes())};
}

// Beside the keys of chunks: no path has a line end for its first character and no identity.
SharedKey statement_key(std::string_view data_set, std::string_view peer) {
  return shared_key(data_set, std::string("\npeers of ").append(peer), 0, {});
}

// As it lies in memory: a node of another byte order is said to have other peers, and it shares nothing with this one.
StatementBytes as_bytes(const PeerStatement& statement) {
  static_assert(sizeof(PeerStatement) == kStatementBytes);
  StatementBytes bytes;
  std::memcpy(bytes.data(), &statement, sizeof statement);
  return bytes;
}

PeerStatement statement_from(const StatementBytes& bytes) {
  PeerStatement statement;
  std::memcpy(&statement, bytes.data(), sizeof statement);
  return statement;
}

Agreement compare(const PeerStatement& own, const PeerStatement& other) {
  if (own.peers != other.peers) return Agreement::kOtherPeers;
  return own.placement == other.placement ? Agreement::kSame : Agreement::kOtherFiles;
}

std::string_view name_of(Agreement agreement) {
  switch (agreement) {
    case Agreement::kNotKnown:
      break;
    case Agreement::kSame:
      return "same";
    case Agreement::kOtherPeers:
      return "other peers";
    case Agreement::kOtherFiles:
      return "other files";
  }
  return "";
}

}  // namespace headrace::cache
