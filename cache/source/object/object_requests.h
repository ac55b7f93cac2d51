// SPDX-License-Identifier: Apache-2.0
// Makes the requests for reads and queries: where they go, what they say, and their signature. Knows what the store has
// told of itself: the bucket's region, and the time.
//
//   const KeyKeeper::KeysPtr keys = requests.describe(read, query, "", exchange);
//
// Thread-safety: the client's thread, but region() and clock_behind(), which any thread may call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "headrace/cache/source/object/endpoint.h"
#include "headrace/cache/source/object/http_loop.h"
#include "headrace/cache/source/object/key_keeper.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/object_verdict.h"
#include "headrace/cache/source/object/signature.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class ObjectRequests {
 public:
  // `keeper` is null where requests are not signed, or with keys that the options gave.
  ObjectRequests(const ObjectStoreOptions& options, Endpoint endpoint, KeyKeeper* keeper);

  // One of read and query is null. `place`: scheme and host that a redirect gave; empty: the endpoint's.
  // Returns the keys that it is signed with, if they can be renewed.
  [[nodiscard]] KeyKeeper::KeysPtr describe(const ObjectRead* read, const ObjectQuery* query, const std::string& place,
                                            HttpExchange& exchange);

  // Takes over what an answer tells. False: it is of no use.
  [[nodiscard]] bool set_clock(const ObjectAnswer& answer);
  // From now on objects that are stored with gzip are asked for as they are stored.
  void take_packed() { takes_packed_.store(true, std::memory_order_relaxed); }
  void note_clock(const ObjectAnswer& answer);
  // The request that was answered bore a time that no store takes.
  [[nodiscard]] bool is_clock_refused(const ObjectAnswer& answer) const;
  [[nodiscard]] bool change_region(const std::string& region);
  // Scheme and host of a redirect; empty: it is not to be followed.
  [[nodiscard]] std::string place_of(const std::string& location) const;

  [[nodiscard]] std::string region() const;
  // By the last answer to a listing, which no proxy keeps, and the last request that was refused for its time.
  [[nodiscard]] std::chrono::seconds clock_behind() const { return std::chrono::seconds(clock_seen_s_.load()); }

 private:
  [[nodiscard]] KeyKeeper::KeysPtr sign(std::string_view host, std::string_view path, std::string_view query,
                                        HttpExchange& exchange);

  const ObjectStoreOptions options_;
  std::atomic<bool> takes_packed_;
  const std::string name_;
  KeyKeeper* const keeper_;
  Endpoint endpoint_;
  std::unique_ptr<Signer> signer_;
  KeyKeeper::KeysPtr signer_keys_;                // that signer_ was made with
  std::atomic<std::int64_t> clock_behind_s_ = 0;  // as requests are dated
  std::atomic<std::int64_t> clock_seen_s_ = 0;
  mutable io::Mutex mutex_;
  std::string region_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
