// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/peer_certificates.h"

#include <cerrno>
#include <memory>
#include <string>

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/shared/peer_tls.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&::X509_free)>;
using Text = std::unique_ptr<BIO, decltype(&::BIO_free)>;

constexpr long kDaySeconds = 24L * 60 * 60;
constexpr long kYearSeconds = 365 * kDaySeconds;

tl::unexpected<io::Error> failed() {
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  return io::make_error(io::ErrorCode::kSystem,
                        std::string("make certificates: ") + (reason == nullptr ? "unknown failure" : reason));
}

Key make_key() {
  return {::EVP_EC_gen("P-256"), &::EVP_PKEY_free};
}

bool extend(X509* certificate, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = ::X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  const bool added = extension != nullptr && ::X509_add_ext(certificate, extension, -1) == 1;
  ::X509_EXTENSION_free(extension);
  return added;
}

// One random number and one year for whoever `name` is.
bool fill_in(X509* certificate, const char* name, EVP_PKEY* key) {
  std::uint64_t serial = 0;
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) return false;
  X509_NAME* subject = ::X509_get_subject_name(certificate);
  return ::X509_set_version(certificate, X509_VERSION_3) == 1 &&
         ::ASN1_INTEGER_set_uint64(::X509_get_serialNumber(certificate), serial >> 1U) == 1 &&
         ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -kDaySeconds) != nullptr &&
         ::X509_gmtime_adj(::X509_getm_notAfter(certificate), kYearSeconds) != nullptr &&
         ::X509_set_pubkey(certificate, key) == 1 &&
         ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1,
                                      0) == 1;
}

Certificate make_authority(EVP_PKEY* key) {
  Certificate authority(::X509_new(), &::X509_free);
  const bool made = authority && fill_in(authority.get(), "headrace job", key) &&
                    ::X509_set_issuer_name(authority.get(), ::X509_get_subject_name(authority.get())) == 1 &&
                    extend(authority.get(), NID_basic_constraints, "critical,CA:TRUE") &&
                    extend(authority.get(), NID_key_usage, "critical,keyCertSign") &&
                    ::X509_sign(authority.get(), key, ::EVP_sha256()) > 0;
  if (!made) authority.reset();
  return authority;
}

Certificate make_certificate(EVP_PKEY* key, const X509* authority, EVP_PKEY* authority_key) {
  Certificate certificate(::X509_new(), &::X509_free);
  const bool made = certificate && fill_in(certificate.get(), "headrace peer", key) &&
                    ::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(authority)) == 1 &&
                    extend(certificate.get(), NID_basic_constraints, "critical,CA:FALSE") &&
                    extend(certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth") &&
                    ::X509_sign(certificate.get(), authority_key, ::EVP_sha256()) > 0;
  if (!made) certificate.reset();
  return certificate;
}

// A file that is there is left alone: nodes that run have read it.
io::Status write_file(const std::filesystem::path& path, BIO& text) {
  const io::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return io::system_error(errno, "make " + path.string());
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(&text, &data);
  if (::write(fd.get(), data, static_cast<std::size_t>(bytes)) != bytes) {
    return io::system_error(errno, "write " + path.string());
  }
  return {};
}

template <typename WritePem>
io::Status write_pem(const std::filesystem::path& path, const WritePem& write) {
  const Text text(::BIO_new(::BIO_s_mem()), &::BIO_free);
  if (!text || write(text.get()) != 1) return failed();
  return write_file(path, *text);
}

}  // namespace

PeerCertificates certificates_in(const std::filesystem::path& folder) {
  return {folder / "ca.pem", folder / "peer.pem", folder / "peer.key"};
}

io::Status make_peer_certificates(const std::filesystem::path& folder) {
  ::ERR_clear_error();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return io::system_error(errno, "make " + folder.string());
  const Key authority_key = make_key();
  const Key key = make_key();
  if (!authority_key || !key) return failed();
  const Certificate authority = make_authority(authority_key.get());
  if (!authority) return failed();
  const Certificate certificate = make_certificate(key.get(), authority.get(), authority_key.get());
  if (!certificate) return failed();
  const PeerCertificates files = certificates_in(folder);
  HEADRACE_TRY_DO(write_pem(files.key, [&](BIO* text) {
    return ::PEM_write_bio_PrivateKey(text, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }));
  HEADRACE_TRY_DO(
      write_pem(files.certificate, [&](BIO* text) { return ::PEM_write_bio_X509(text, certificate.get()); }));
  return write_pem(files.authority, [&](BIO* text) { return ::PEM_write_bio_X509(text, authority.get()); });
}

io::Status check_peer_certificates(const std::filesystem::path& folder) {
  return PeerTls::load(folder).map([](const std::unique_ptr<PeerTls>&) {});
}

}  // namespace headrace::cache
