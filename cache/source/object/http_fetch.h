// SPDX-License-Identifier: Apache-2.0
// One HTTP request whose caller waits: to a service that gives keys.
//
//   HEADRACE_TRY(answer, http_fetch({.url = "http://169.254.169.254/latest/..."}, {.wait = 1s, .no_proxy = true}));
//
// Thread-safety: any thread; it blocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "headrace/cache/source/object/http_loop.h"
#include "headrace/cache/source/object/stop_event.h"
#include "headrace/io/result.h"

namespace headrace::cache {

struct HttpQuestion {
  HttpExchange::Method method = HttpExchange::Method::kGet;
  std::string url;
  std::vector<std::string> headers = {};
  std::string body = {};
};

struct HttpFetchOptions {
  std::chrono::milliseconds wait{5'000};
  std::chrono::milliseconds connect_wait{5'000};
  bool no_proxy = false;
  std::string ca_file = {};
  const StopEvent* stop = nullptr;
};

struct HttpFetched {
  int status = 0;
  std::string body;  // at most 256 KiB; may hold a secret: the caller overwrites it
};

// Overwrites the headers and the body of the question, which may hold a token, once they are sent.
// Errors: kTimedOut (nothing there, or too slow), kCancelled (`stop`).
[[nodiscard]] io::Result<HttpFetched> http_fetch(HttpQuestion question, const HttpFetchOptions& options);

}  // namespace headrace::cache
