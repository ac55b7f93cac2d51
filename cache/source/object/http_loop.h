// SPDX-License-Identifier: Apache-2.0
// Many HTTP requests at once on one thread: libcurl's multi interface over epoll.
//
//   HttpLoop loop(options);
//   loop.start(exchange);               // exchange.sink hears of headers, body and end
//   while (...) loop.run_once(50ms);    // sinks run in here
//
// libcurl keeps connections, resolves names on threads of its own and speaks TLS. Its queues are not used: whatever is
// started begins at once. `curl_multi_socket_action` touches only sockets that are ready; the simpler
// `curl_multi_perform` looks at every request in flight each time.
//
// Thread-safety: one thread, except wake().
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"
#include "headrace/io/wake_event.h"

namespace headrace::cache {

struct HttpEnd {
  bool is_complete = false;      // an answer came, and all of it
  bool never_connected = false;  // no such host, refused, TLS that does not agree
  bool is_untrusted = false;     // its certificate is none that is trusted
  std::string trouble;           // for people, if it is not complete
};

class HttpSink {
 public:
  HttpSink() = default;
  virtual ~HttpSink() = default;
  HttpSink(const HttpSink&) = delete;
  HttpSink& operator=(const HttpSink&) = delete;

  // The first line of an answer has come; headers and body follow.
  virtual void on_status(int status) = 0;
  virtual void on_header(std::string_view name, std::string_view value) = 0;  // the name as it was sent
  // False: the rest is of no use; the exchange ends as broken.
  [[nodiscard]] virtual bool on_body(std::span<const std::byte> bytes) = 0;
  virtual void on_end(const HttpEnd& end) = 0;  // may start others, and may end the life of its exchange
};

// Ownership: the caller's, until on_end or cancel().
struct HttpExchange {
  enum class Method : unsigned char { kGet, kHead, kPut, kPost };
  Method method = Method::kGet;
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // of a POST
  HttpSink* sink = nullptr;

  // Private to HttpLoop.
  CURL* easy = nullptr;
  curl_slist* lines = nullptr;
  bool has_headers = false;  // all of the answer's
};

struct HttpLoopOptions {
  std::string ca_file;  // empty: the system's
  std::chrono::milliseconds connect_timeout{5'000};
  unsigned connections_max = 64;  // kept open
  bool no_proxy = false;          // else the environment names one
  int stop_fd = -1;               // run_once() does not wait while this can be read from
};

class HttpLoop {
 public:
  explicit HttpLoop(HttpLoopOptions options);
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  // Errors: kSystem (no epoll, no memory).
  [[nodiscard]] io::Status ready() const;
  void start(HttpExchange& exchange);
  // on_end does not run. The connection is closed unless its answer is complete.
  void cancel(HttpExchange& exchange);
  // Waits for sockets, wake() or the time to be over, and lets requests go on.
  void run_once(std::chrono::milliseconds wait_max);
  // Any thread: run_once() returns soon.
  void wake() { wake_.set(); }

 private:
  [[nodiscard]] CURL* take_easy();
  void give_back(HttpExchange& exchange);
  void end_complete();
  void on_curl_timer(long wait_ms);
  static int watch(CURL* easy, curl_socket_t socket, int what, void* self, void* watched);
  static int set_timer(CURLM* multi, long wait_ms, void* self);
  static std::size_t take_header(char* line, std::size_t size, std::size_t count, void* exchange);
  static std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* exchange);

  const HttpLoopOptions options_;
  io::UniqueFd epoll_;
  io::WakeEvent wake_;
  CURLM* multi_ = nullptr;
  std::vector<CURL*> idle_;  // easy handles; making one costs 10 us and its buffers
  bool has_timer_ = false;
  std::chrono::steady_clock::time_point timer_ = {};  // when libcurl wants to be called
};

}  // namespace headrace::cache
