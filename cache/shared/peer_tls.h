// SPDX-License-Identifier: Apache-2.0
// The certificates of a job (cache/peer_certificates.h), as a peer's client needs them.
//
//   HEADRACE_TRY(tls, PeerTls::load("/home/me/job-17"));
//   PeerStream stream(address, tls.get());
//
// A job has an authority of its own, so a certificate that it has signed is all that is asked for: names are not
// compared, because a node has several of them.
//
// Thread-safety: constant after load().
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "headrace/io/result.h"

// As <openssl/types.h> has them, which whoever only holds them need not know.
using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace headrace::cache {

struct FreeTlsSession {
  void operator()(SSL* session) const;
};
using TlsSession = std::unique_ptr<SSL, FreeTlsSession>;

class PeerTls {
 public:
  // Errors: kInvalidArgument, naming the file that is missing or wrong.
  [[nodiscard]] static io::Result<std::unique_ptr<PeerTls>> load(const std::filesystem::path& folder);
  ~PeerTls();
  PeerTls(const PeerTls&) = delete;
  PeerTls& operator=(const PeerTls&) = delete;

  // Of a client, over this socket. Null: no memory.
  [[nodiscard]] TlsSession connect(int fd) const;
  // Why a session has failed, in words; empties this thread's queue of errors.
  [[nodiscard]] static std::string reason_of(const SSL& session);

 private:
  explicit PeerTls(SSL_CTX* context) : context_(context) {}

  SSL_CTX* context_;
};

}  // namespace headrace::cache
