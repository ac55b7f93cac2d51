// SPDX-License-Identifier: Apache-2.0
// What an answer of an object store, or the lack of one, means: done, try again, or which error.
//
//   switch (judge(answer)) { case Verdict::kTryAgain: ... }
//
// | answer | verdict |
// |---|---|
// | 200, 206 | done |
// | 408, 5xx but 501, 505; a connection that broke or stalled; a short body | try again, at most attempts_max times |
// | 429, 503, 509, 529, SlowDown, no connection at all | slow down, until give_up_after: the store is busy or away |
// | 400 ExpiredToken, InvalidToken; 401; 403 but for what follows | once: new keys; a token's until give_up_after |
// | 403 RequestTimeTooSkewed | once: the store's clock |
// | 301, 400 with a region | once: that region; then new keys |
// | 307, 308 with a place | twice: there |
// | a certificate that is not trusted, the rest | fails |
//
// Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "headrace/cache/object_store.h"
#include "headrace/io/result.h"

namespace headrace::cache {

enum class Verdict : std::uint8_t {
  kDone,
  kTryAgain,
  kSlowDown,
  kNewKeys,
  kStoresClock,
  kOtherRegion,
  kFollow,
  kFail,
};

struct ObjectAnswer {
  int status = 0;          // of HTTP; 0: none came
  bool is_broken = false;  // no answer, or not all of it
  bool never_connected = false;
  bool is_untrusted = false;  // its certificate
  std::string host;           // that was asked
  std::string trouble;        // of the connection, for people
  std::string code;           // of the store's error: "NoSuchKey"; a HEAD has none
  std::string message;
  std::string region;            // where the bucket lies, if the store says
  std::string location;          // of a redirect
  bool may_have_to_pay = false;  // a signed request that did not say who pays
  std::optional<std::chrono::seconds> retry_after;
  std::optional<std::chrono::sys_seconds> date;  // the store's clock
};

// The session token, which somebody renews from time to time, was refused.
[[nodiscard]] bool is_about_token(const ObjectAnswer& answer);
[[nodiscard]] Verdict judge(const ObjectAnswer& answer);

// The line for people, of an answer that is no success. `what` names the object or bucket.
[[nodiscard]] io::Error error_of(const ObjectAnswer& answer, const std::string& what);

// How long to wait before attempt `attempt` (the first retry is 1): drawn at random up to a bound that doubles ("full
// jitter": Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), and no less than Retry-After, as
// long as attempts_max of them fit into give_up_after.
[[nodiscard]] std::chrono::milliseconds backoff(const ObjectTuning& tuning, unsigned attempt,
                                                std::optional<std::chrono::seconds> retry_after,
                                                std::minstd_rand& random);

}  // namespace headrace::cache
