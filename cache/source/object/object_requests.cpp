// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_requests.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "headrace/cache/source/object/object_attempt.h"
#include "headrace/cache/source/object/object_settings.h"
#include "headrace/cache/source/object/uri.h"
#include "headrace/io/log.h"

namespace headrace::cache {

using io::MutexLock;
using std::chrono::seconds;

namespace {

seconds seconds_behind(std::chrono::sys_seconds date) {
  return date - std::chrono::floor<seconds>(std::chrono::system_clock::now());
}

// Cloud Storage unpacks what was stored with gzip, and then tells neither its length nor keeps to a range, unless a
// client says that it takes it as it is ("Transcoding of gzip-compressed files"). Elsewhere a proxy might pack what is
// stored plain for who takes that.
bool unpacks_gzip(std::string_view host) {
  return host.ends_with("storage.googleapis.com");
}

}  // namespace

ObjectRequests::ObjectRequests(const ObjectStoreOptions& options, Endpoint endpoint, KeyKeeper* keeper)
    : options_(options),
      takes_packed_(unpacks_gzip(endpoint.host)),
      name_(name_of(options)),
      keeper_(keeper),
      endpoint_(std::move(endpoint)),
      region_(options.region) {
  if (options.keys && !options.no_sign_request) signer_ = std::make_unique<Signer>(*options.keys, options.region, "s3");
}

KeyKeeper::KeysPtr ObjectRequests::describe(const ObjectRead* read, const ObjectQuery* query, const std::string& place,
                                            HttpExchange& exchange) {
  std::string path = endpoint_.bucket_path;
  std::string question;
  exchange.headers.emplace_back("User-Agent: headrace");
  if (read != nullptr) {
    path += encode_path(options_.prefix);
    path += encode_path(read->key);
    if (read->length == 0) exchange.method = HttpExchange::Method::kHead;
    if (read->etag != nullptr) exchange.headers.push_back(fmt::format("If-Match: \"{}\"", read->etag));
    if (read->length != 0 && !is_of_whole_object(*read)) {
      exchange.headers.push_back(fmt::format("Range: bytes={}-{}", read->offset, read->offset + read->length - 1));
    }
  } else {
    question = query->query;
  }
  const bool takes_packed = takes_packed_.load(std::memory_order_relaxed);
  exchange.headers.emplace_back(takes_packed ? "Accept-Encoding: gzip" : "Accept-Encoding: identity");
  std::string_view host = endpoint_.host;
  if (place.empty()) {
    exchange.url = endpoint_.url(path, question);
  } else {
    exchange.url = place + path + (question.empty() ? "" : "?") + question;
    host = std::string_view(place).substr(place.find("//") + 2);
  }
  return sign(host, path, question, exchange);
}

KeyKeeper::KeysPtr ObjectRequests::sign(std::string_view host, std::string_view path, std::string_view query,
                                        HttpExchange& exchange) {
  if (options_.requester_pays) exchange.headers.emplace_back("x-amz-request-payer: requester");
  if (options_.no_sign_request) return nullptr;
  KeyKeeper::KeysPtr keys;
  if (keeper_ != nullptr) {
    keys = keeper_->current();
    if (signer_ == nullptr || keys != signer_keys_) {
      MutexLock lock(mutex_);
      signer_ = std::make_unique<Signer>(keys->keys, region_, "s3");
      signer_keys_ = keys;
    }
  }
  const auto now = std::chrono::floor<seconds>(std::chrono::system_clock::now()) +
                   seconds(clock_behind_s_.load(std::memory_order_relaxed));
  const std::string date = amz_date(now);
  RequestToSign request;
  request.method = exchange.method == HttpExchange::Method::kHead ? "HEAD" : "GET";
  request.path = path;
  request.query = query;
  request.headers = {{"host", host}, {"x-amz-content-sha256", kEmptyBodyHash}, {"x-amz-date", date}};
  if (options_.requester_pays) request.headers.emplace_back("x-amz-request-payer", "requester");
  const std::string_view token = signer_->keys().session_token.bytes();
  if (!token.empty()) request.headers.emplace_back("x-amz-security-token", token);
  exchange.headers.push_back("Authorization: " + signer_->authorization(request, now));
  exchange.headers.push_back(fmt::format("x-amz-content-sha256: {}", kEmptyBodyHash));
  exchange.headers.push_back("x-amz-date: " + date);
  if (!token.empty()) exchange.headers.push_back(fmt::format("x-amz-security-token: {}", token));
  return keys;
}

void ObjectRequests::note_clock(const ObjectAnswer& answer) {
  if (answer.date) clock_seen_s_.store(seconds_behind(*answer.date).count());
}

bool ObjectRequests::is_clock_refused(const ObjectAnswer& answer) const {
  constexpr seconds kSafe = std::chrono::minutes(5);  // a store refuses 15
  if (!answer.date) return false;
  const seconds off = seconds_behind(*answer.date) - seconds(clock_behind_s_.load(std::memory_order_relaxed));
  return std::chrono::abs(off) > kSafe;
}

bool ObjectRequests::set_clock(const ObjectAnswer& answer) {
  if (!answer.date) return false;
  const seconds behind = seconds_behind(*answer.date);
  clock_seen_s_.store(behind.count());
  const std::int64_t before = clock_behind_s_.exchange(behind.count());
  // Others found out at the same time.
  if (before - behind.count() > 5 || behind.count() - before > 5) {
    io::log_warning("{}: this machine's clock is {} s {} the store's; requests carry the store's time. Set the clock",
                    name_, std::abs(behind.count()), behind.count() > 0 ? "behind" : "ahead of");
  }
  return true;
}

bool ObjectRequests::change_region(const std::string& region) {
  if (!may_be_region(region)) return false;
  ObjectStoreOptions there = options_;
  there.region = region;
  io::Result<Endpoint> endpoint = make_endpoint(there);
  if (!endpoint) return false;
  MutexLock lock(mutex_);
  if (region_ == region) return true;  // another request found out first
  io::log_info("{}: the bucket lies in {}", name_, region);
  region_ = region;
  endpoint_ = std::move(*endpoint);
  signer_ = options_.keys ? std::make_unique<Signer>(*options_.keys, region, "s3") : nullptr;
  return true;
}

std::string ObjectRequests::place_of(const std::string& location) const {
  const bool is_safe = location.starts_with("https://") || endpoint_.scheme == "http";
  return is_safe ? cache::place_of(location) : "";
}

std::string ObjectRequests::region() const {
  MutexLock lock(mutex_);
  return region_;
}

}  // namespace headrace::cache
