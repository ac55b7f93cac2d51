// SPDX-License-Identifier: Apache-2.0
// Prints path and signature of each request on its input, for compare_with_botocore.py. A line is the time, the host,
// the region and the key, each but the first two in hex.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

#include "headrace/cache/source/object/signature.h"
#include "headrace/cache/source/object/uri.h"

namespace {

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return text;
}

}  // namespace

int main() {
  using headrace::cache::amz_date;
  using headrace::cache::kEmptyBodyHash;
  using headrace::io::Secret;
  headrace::cache::Signer signer({.id = "AKIDEXAMPLE",
                                  .secret = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
                                  .session_token = Secret("a/token+with=signs")},
                                 "eu-west-1", "s3");
  std::int64_t time = 0;
  std::string host;
  std::string key;
  std::string prefix;
  while (std::cin >> time >> host >> key >> prefix) {
    const std::chrono::sys_seconds when{std::chrono::seconds(time)};
    const std::string path = "/" + headrace::cache::encode_path(from_hex(key));
    const std::string query = headrace::cache::make_query({{"list-type", "2"}, {"prefix", from_hex(prefix)}});
    const std::string date = amz_date(when);
    const headrace::cache::RequestToSign request{.path = path,
                                                 .query = query,
                                                 .headers = {{"host", host},
                                                             {"x-amz-content-sha256", kEmptyBodyHash},
                                                             {"x-amz-date", date},
                                                             {"x-amz-security-token", "a/token+with=signs"}}};
    std::cout << path << '?' << query << '\t' << signer.authorization(request, when) << '\n';
  }
}
