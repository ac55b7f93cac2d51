// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_verdict.h"

#include <algorithm>

#include <fmt/format.h>

#include "headrace/cache/source/object/endpoint.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using std::chrono::milliseconds;

constexpr std::size_t kMessageBytesMax = 200;  // an error is one line

bool is_one_of(std::string_view code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

bool is_about_keys(const ObjectAnswer& answer) {
  return is_about_token(answer) || answer.status == 401 || answer.status == 403;
}

// Of a proxy or a gateway, which says nothing of the object: the store behind it does not answer.
bool is_of_gateway(const ObjectAnswer& answer) {
  const bool is_cloudflares = answer.status >= 520 && answer.status <= 524;  // as its error pages list them
  return answer.code.empty() && (answer.status == 502 || answer.status == 504 || is_cloudflares);
}

bool is_redirect(const ObjectAnswer& answer) {
  return answer.status >= 300 && answer.status < 400;
}

// What to do, for the codes that people meet.
std::string advice(const ObjectAnswer& answer) {
  struct Advice {
    std::string_view code;
    std::string_view text;
  };
  static constexpr Advice kAdvice[] = {
      {"InvalidAccessKeyId", "the store does not know this access key; check AWS_ACCESS_KEY_ID or the profile"},
      {"SignatureDoesNotMatch", "the secret key does not belong to the access key; check AWS_SECRET_ACCESS_KEY"},
      {"ExpiredToken", "the session token has expired, and no newer one was found; log in again"},
      {"InvalidToken", "the session token is wrong; check AWS_SESSION_TOKEN"},
      {"NoSuchBucket", "there is no such bucket; check its name and the endpoint"},
      {"RequestTimeTooSkewed", "this machine's clock is wrong; set it"},
      {"InvalidObjectState", "the object is archived; restore it first"},
      {"PermanentRedirect", "the bucket lies elsewhere; give its --region or --endpoint"},
      {"AuthorizationHeaderMalformed", "the bucket lies in another region; give its --region"},
  };
  for (const Advice& entry : kAdvice) {
    if (entry.code == answer.code) return std::string(entry.text);
  }
  if (answer.status == 403 && answer.may_have_to_pay) {
    return "the store refuses it; the keys need s3:GetObject and s3:ListBucket on this bucket, one whose requester "
           "pays "
           "is read with --requester-pays, and a public one with --no-sign-request";
  }
  if (answer.status == 401 || answer.status == 403) {
    return "the store refuses it; the keys need s3:GetObject and s3:ListBucket on this bucket, and a public bucket is "
           "read with --no-sign-request";
  }
  if (is_redirect(answer) && !place_of(answer.location).empty()) {
    return fmt::format("the store sends elsewhere; give --endpoint {}", place_of(answer.location));
  }
  if (answer.status == 301) return "the bucket lies in another region; give its --region";
  if (answer.status == 400 && answer.code.empty()) return "no store answers so; check --endpoint, its scheme and port";
  return {};
}

ErrorCode code_of(const ObjectAnswer& answer) {
  if (answer.is_untrusted) return ErrorCode::kPermission;
  if (answer.status == 404 || answer.status == 410) return ErrorCode::kNotFound;
  if (answer.status == 412 || answer.status == 416) return ErrorCode::kStale;
  if (answer.status == 401 || answer.status == 403 || is_about_keys(answer)) return ErrorCode::kPermission;
  if (is_redirect(answer) || answer.status == 400) return ErrorCode::kInvalidArgument;
  if (answer.status == 0 || answer.status == 408 || answer.status == 504) return ErrorCode::kTimedOut;
  return ErrorCode::kSystem;
}

}  // namespace

bool is_about_token(const ObjectAnswer& answer) {
  return is_one_of(answer.code, {"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"});
}

Verdict judge(const ObjectAnswer& answer) {
  if (answer.is_untrusted) return Verdict::kFail;
  if (answer.never_connected) return Verdict::kSlowDown;
  if (answer.is_broken) return Verdict::kTryAgain;
  const int status = answer.status;
  if (status == 200 || status == 206) return Verdict::kDone;
  if (status == 429 || status == 503 || status == 509 || status == 529 || is_of_gateway(answer) ||
      is_one_of(answer.code, {"SlowDown", "RequestLimitExceeded"})) {
    return Verdict::kSlowDown;
  }
  const bool is_trouble_of_server = status >= 500 && status != 501 && status != 505;  // these two are for good
  if (status == 408 || is_trouble_of_server || answer.code == "RequestTimeout") {
    return Verdict::kTryAgain;
  }
  if (answer.code == "RequestTimeTooSkewed") return answer.date ? Verdict::kStoresClock : Verdict::kFail;
  if (is_about_token(answer)) return Verdict::kNewKeys;  // Amazon names the bucket's region with many an error
  if ((status == 301 || status == 400) && !answer.region.empty()) return Verdict::kOtherRegion;
  if ((status == 307 || status == 308) && !answer.location.empty()) return Verdict::kFollow;
  return is_about_keys(answer) ? Verdict::kNewKeys : Verdict::kFail;
}

Error error_of(const ObjectAnswer& answer, const std::string& what) {
  std::string why;
  if (answer.is_untrusted) {
    why = fmt::format(
        "the store's certificate is not trusted ({}); install the package ca-certificates, or name the "
        "file of its authority in AWS_CA_BUNDLE",
        answer.trouble);
  } else if (answer.never_connected) {
    why = fmt::format("{}: {}; check --endpoint, --region and the proxy", answer.host,
                      answer.trouble.empty() ? "no connection" : answer.trouble);
  } else if (answer.status == 0) {
    why = answer.trouble.empty() ? "no answer" : answer.trouble;
  } else if (answer.is_broken) {
    why = answer.trouble.empty() ? "the answer broke off" : answer.trouble;
  } else if (answer.status == 404 && answer.code != "NoSuchBucket") {
    why = "no such object";
  } else if (answer.status == 412) {
    why = "the object was replaced";
  } else if (answer.status == 416) {
    why = "the object is shorter than it was";
  } else {
    why = fmt::format("HTTP {}", answer.status);
    if (!answer.code.empty()) why += fmt::format(" {}", io::printable(answer.code));
    const std::string todo = advice(answer);
    if (!todo.empty()) why += fmt::format(": {}", todo);
    // What the store says of a denial may name the policy that denies.
    if (!answer.message.empty() && (todo.empty() || answer.code == "AccessDenied")) {
      why += todo.empty() ? ": " : "; it says: ";
      why += io::printable(answer.message.substr(0, kMessageBytesMax));
    }
  }
  const ErrorCode code = code_of(answer);
  return {code, code == ErrorCode::kSystem ? EIO : 0, fmt::format("{}: {}", what, why)};
}

milliseconds backoff(const ObjectTuning& tuning, unsigned attempt, std::optional<std::chrono::seconds> retry_after,
                     std::minstd_rand& random) {
  const unsigned doublings = std::min(attempt > 0 ? attempt - 1 : 0, 16U);  // 50 ms times 2^16 is beyond any bound
  const milliseconds bound = std::min(tuning.backoff_max, tuning.backoff_first * (1U << doublings));
  std::uniform_int_distribution<milliseconds::rep> draw(0, std::max<milliseconds::rep>(bound.count(), 0));
  milliseconds pause(draw(random));
  // MinIO says 60 s with every 503, which is all the time that a read has.
  const milliseconds longest = tuning.give_up_after / std::max(tuning.attempts_max, 1U);
  if (retry_after) pause = std::max(pause, std::min<milliseconds>(*retry_after, longest));
  return pause;
}

}  // namespace headrace::cache
