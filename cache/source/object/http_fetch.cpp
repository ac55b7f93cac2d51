// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/http_fetch.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <string.h>  // NOLINT(modernize-deprecated-headers): explicit_bzero()

#include "headrace/io/secret.h"

namespace headrace::cache {
namespace {

// An answer with keys has 2 KiB.
constexpr std::size_t kBodyBytesMax = std::size_t{256} * 1024;

class Collector : public HttpSink {
 public:
  Collector() { fetched.body.reserve(std::size_t{16} * 1024); }  // a string that grows leaves copies of keys behind

  void on_status(int status) override { fetched.status = status; }
  void on_header(std::string_view /*name*/, std::string_view /*value*/) override {}
  bool on_body(std::span<const std::byte> bytes) override {
    if (fetched.body.size() + bytes.size() > kBodyBytesMax) return false;
    fetched.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // They lie in libcurl's own buffer, which goes back to the heap as it is. That is handed out as char*, to be
    // changed.
    ::explicit_bzero(const_cast<std::byte*>(bytes.data()), bytes.size());  // NOLINT(*-const-cast)
    return true;
  }
  void on_end(const HttpEnd& end) override { ended = end; }

  HttpFetched fetched;
  std::optional<HttpEnd> ended;
};

}  // namespace

io::Result<HttpFetched> http_fetch(HttpQuestion question, const HttpFetchOptions& options) {
  using Clock = std::chrono::steady_clock;
  HttpLoop loop({.ca_file = options.ca_file,
                 .connect_timeout = options.connect_wait,
                 .no_proxy = options.no_proxy,
                 .stop_fd = options.stop != nullptr ? options.stop->fd() : -1});
  HEADRACE_TRY_DO(loop.ready());
  Collector collector;
  HttpExchange exchange;
  exchange.method = question.method;
  exchange.url = question.url;
  exchange.headers = std::move(question.headers);
  exchange.body = std::move(question.body);
  exchange.sink = &collector;
  loop.start(exchange);
  const Clock::time_point deadline = Clock::now() + options.wait;
  const auto is_stopped = [&] { return options.stop != nullptr && options.stop->is_set(); };
  while (!collector.ended && !is_stopped()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) break;
    loop.run_once(left);
  }
  loop.cancel(exchange);
  for (std::string& header : exchange.headers) io::wipe(header);
  io::wipe(exchange.body);
  if (collector.ended && collector.ended->is_complete) return std::move(collector.fetched);
  io::wipe(collector.fetched.body);
  const std::string host = question.url.substr(0, question.url.find('/', 8));
  if (is_stopped()) return io::make_error(io::ErrorCode::kCancelled, host);
  return io::make_error(io::ErrorCode::kTimedOut,
                        host + ": " + (collector.ended ? collector.ended->trouble : std::string("no answer in time")));
}

}  // namespace headrace::cache
