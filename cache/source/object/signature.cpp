// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/signature.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/sha.h>

namespace headrace::cache {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string hex(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

using MacContext = std::unique_ptr<EVP_MAC_CTX, decltype(&::EVP_MAC_CTX_free)>;

// Without a key. OpenSSL 3 looks HMAC() and its hash up by their names each time, which takes half of the call.
const EVP_MAC_CTX* hmac_sha256() {
  static const MacContext context = [] {
    EVP_MAC* const mac = ::EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr);
    MacContext made(::EVP_MAC_CTX_new(mac), &::EVP_MAC_CTX_free);
    ::EVP_MAC_free(mac);  // the context has its own share of it
    std::string hash = OSSL_DIGEST_NAME_SHA2_256;
    const std::array parameters = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, hash.data(), hash.size()),
                                   OSSL_PARAM_construct_end()};
    HEADRACE_ASSERT(made != nullptr && ::EVP_MAC_CTX_set_params(made.get(), parameters.data()) == 1);
    return made;
  }();
  return context.get();
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest digest = {};
  std::size_t size = 0;
  const MacContext context(::EVP_MAC_CTX_dup(hmac_sha256()), &::EVP_MAC_CTX_free);
  const bool is_done = context != nullptr && ::EVP_MAC_init(context.get(), as_bytes(key), key.size(), nullptr) == 1 &&
                       ::EVP_MAC_update(context.get(), as_bytes(text), text.size()) == 1 &&
                       ::EVP_MAC_final(context.get(), digest.data(), &size, digest.size()) == 1;
  HEADRACE_ASSERT(is_done && size == digest.size());
  return digest;
}

}  // namespace

std::string sha256_hex(std::string_view text) {
  Digest digest = {};
  SHA256(as_bytes(text), text.size(), digest.data());
  return hex(digest);
}

std::string amz_date(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

Signer::Signer(AccessKeys keys, std::string region, std::string service)
    : keys_(std::move(keys)), region_(std::move(region)), service_(std::move(service)) {}

io::Secret Signer::make_day_key(std::string_view day) const {
  std::string first = "AWS4";
  first.reserve(first.size() + keys_.secret.bytes().size());  // a string that grows leaves a copy behind
  first += keys_.secret.bytes();
  Digest key = hmac(first, day);
  io::wipe(first);
  for (const std::string_view part :
       {std::string_view(region_), std::string_view(service_), std::string_view("aws4_request")}) {
    Digest next = hmac(as_text(key), part);
    std::swap(key, next);
    OPENSSL_cleanse(next.data(), next.size());
  }
  io::Secret secret(as_text(key));
  OPENSSL_cleanse(key.data(), key.size());
  return secret;
}

std::string Signer::authorization(const RequestToSign& request, std::chrono::sys_seconds time) {
  const std::string date = amz_date(time);
  const std::string day = date.substr(0, 8);
  if (day != day_) {
    day_key_ = make_day_key(day);
    day_ = day;
  }
  std::string names;
  std::string canonical;
  canonical.reserve(512);
  canonical.append(request.method).append(1, '\n').append(request.path).append(1, '\n');
  canonical.append(request.query).append(1, '\n');
  for (const auto& [name, value] : request.headers) {
    canonical.append(name).append(1, ':').append(value).append(1, '\n');
    if (!names.empty()) names += ';';
    names += name;
  }
  canonical.append(1, '\n').append(names).append(1, '\n').append(request.body_hash);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region_, service_);
  const std::string text = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, scope, sha256_hex(canonical));
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", keys_.id, scope, names,
                     hex(hmac(day_key_.bytes(), text)));
}

}  // namespace headrace::cache
