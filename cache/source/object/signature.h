// SPDX-License-Identifier: Apache-2.0
// Amazon's Signature Version 4: what proves that a request comes from somebody who has the secret key.
//
//   Signer signer(keys, "us-east-1", "s3");
//   const std::string value = signer.authorization(request, time);   // of the header Authorization
//
// From "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API reference. libcurl signs, too, but does
// so wrongly for some paths and queries (curl#9717, #11794, #13754).
//
// Thread-safety: a Signer belongs to one thread, because it keeps the key of the day.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headrace/cache/object_store.h"

namespace headrace::cache {

// SHA-256 of nothing, as a request without a body has it.
inline constexpr std::string_view kEmptyBodyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// 20130524T000000Z, the value of the header x-amz-date.
[[nodiscard]] std::string amz_date(std::chrono::sys_seconds time);
[[nodiscard]] std::string sha256_hex(std::string_view text);

struct RequestToSign {
  std::string_view method = "GET";
  std::string_view path;                                               // encoded, as it is sent
  std::string_view query;                                              // made by make_query()
  std::vector<std::pair<std::string_view, std::string_view>> headers;  // names in small letters, sorted
  std::string_view body_hash = kEmptyBodyHash;
};

class Signer {
 public:
  Signer(AccessKeys keys, std::string region, std::string service);

  [[nodiscard]] const AccessKeys& keys() const { return keys_; }
  // The value of the header Authorization. `headers` has host and x-amz-date, and all x-amz-* that are sent.
  [[nodiscard]] std::string authorization(const RequestToSign& request, std::chrono::sys_seconds time);

 private:
  [[nodiscard]] io::Secret make_day_key(std::string_view day) const;

  const AccessKeys keys_;
  const std::string region_;
  const std::string service_;
  std::string day_;     // of day_key_
  io::Secret day_key_;  // deriving it takes four of the five hashes of a signature
};

}  // namespace headrace::cache
