// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_tls.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include "headrace/cache/peer_certificates.h"

namespace headrace::cache {
namespace {

// The newest of this thread's errors, as OpenSSL words it.
std::string last_error() {
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  ::ERR_clear_error();
  return reason == nullptr ? "unknown failure" : reason;
}

tl::unexpected<io::Error> refused(const std::filesystem::path& file) {
  std::string reason = last_error();  // of a file that cannot be read, it only says that the system refused
  if (::access(file.c_str(), R_OK) != 0) reason = std::generic_category().message(errno);
  return io::make_error(
      io::ErrorCode::kInvalidArgument,
      fmt::format("certificate {}: {}; headrace peers init makes what is needed", file.string(), reason));
}

}  // namespace

void FreeTlsSession::operator()(SSL* session) const {
  ::SSL_free(session);
}

io::Result<std::unique_ptr<PeerTls>> PeerTls::load(const std::filesystem::path& folder) {
  ::ERR_clear_error();
  std::unique_ptr<PeerTls> tls(new PeerTls(::SSL_CTX_new(::TLS_client_method())));
  SSL_CTX* context = tls->context_;
  if (context == nullptr) return io::make_error(io::ErrorCode::kSystem, "TLS: " + last_error());
  ::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  // A write may go on with the same bytes in another place, and give back how much of them went.
  ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  const PeerCertificates files = certificates_in(folder);
  if (::SSL_CTX_load_verify_file(context, files.authority.c_str()) != 1) return refused(files.authority);
  if (::SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) return refused(files.certificate);
  if (::SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) return refused(files.key);
  return tls;
}

PeerTls::~PeerTls() {
  ::SSL_CTX_free(context_);
}

TlsSession PeerTls::connect(int fd) const {
  TlsSession session(::SSL_new(context_));
  if (!session || ::SSL_set_fd(session.get(), fd) != 1) return nullptr;
  ::SSL_set_connect_state(session.get());
  return session;
}

std::string PeerTls::reason_of(const SSL& session) {
  const long verified = ::SSL_get_verify_result(&session);
  const unsigned long code = ::ERR_peek_last_error();
  const int reason = ERR_GET_REASON(code);
  const std::string words = last_error();
  if (verified != X509_V_OK) {
    return fmt::format("its certificate is not one of this job: {}", ::X509_verify_cert_error_string(verified));
  }
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_WRONG_VERSION_NUMBER) return "it talks in the clear, not TLS";
  // From this number on OpenSSL numbers what the other side has said.
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET) return "it refuses our certificate: " + words;
  return "TLS: " + words;
}

}  // namespace headrace::cache
