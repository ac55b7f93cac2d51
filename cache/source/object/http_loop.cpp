// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/http_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>  // NOLINT(modernize-deprecated-headers): explicit_bzero()
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace headrace::cache {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// What libcurl receives at once. A photograph of 110 kB then takes one or two calls instead of seven.
constexpr long kReceiveBytes = 128L * 1024;

void set_up_curl() {
  // Once in the process; libcurl counts what else in it does the same.
  static const CURLcode done = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  HEADRACE_ASSERT(done == CURLE_OK);
}

// libcurl's functions have variable arguments, and clang-tidy wants to know that this is seen.
template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  const CURLcode done = ::curl_easy_setopt(easy, option, value);
  HEADRACE_ASSERT(done == CURLE_OK || done == CURLE_UNKNOWN_OPTION || done == CURLE_NOT_BUILT_IN);
}

// As libcurl's own, but a program that is started gets none of them.
curl_socket_t open_socket(void* /*context*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// A store that sends its headers and the object one after the other (Ceph RGW) holds the second back until the first is
// acknowledged (Nagle), which the kernel puts off for 40 ms on a connection that has just sent something. So this is
// asked for anew with each request (tcp(7): it is not permanent). The answer is the same where the kernel knows of no
// such thing.
void acknowledge_at_once(curl_socket_t socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

bool is_no_connection(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_SSL_CONNECT_ERROR;
}

}  // namespace

HttpLoop::HttpLoop(HttpLoopOptions options) : options_(std::move(options)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  set_up_curl();
  multi_ = ::curl_multi_init();
  if (multi_ == nullptr || !epoll_.valid() || !wake_.valid()) return;
  ::curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &HttpLoop::watch);
  ::curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  ::curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &HttpLoop::set_timer);
  ::curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  ::curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections_max));
  epoll_event event = {.events = EPOLLIN, .data = {.fd = wake_.fd()}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.fd(), &event);
  if (options_.stop_fd < 0) return;
  event.data.fd = options_.stop_fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, options_.stop_fd, &event);
}

HttpLoop::~HttpLoop() {
  for (CURL* const easy : idle_) ::curl_easy_cleanup(easy);
  if (multi_ != nullptr) ::curl_multi_cleanup(multi_);
}

io::Status HttpLoop::ready() const {
  if (!epoll_.valid() || !wake_.valid()) return io::system_error(errno, "epoll");
  if (multi_ == nullptr) return io::system_error(ENOMEM, "libcurl");
  return {};
}

CURL* HttpLoop::take_easy() {
  if (!idle_.empty()) {
    CURL* const easy = idle_.back();
    idle_.pop_back();
    return easy;
  }
  CURL* const easy = ::curl_easy_init();
  HEADRACE_ASSERT(easy != nullptr);
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_PATH_AS_IS, 1L);  // keys may hold "//" and "..", and the path is signed as it is
  set(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy, CURLOPT_BUFFERSIZE, kReceiveBytes);
  set(easy, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  // A name that nobody resolves is left to its thread. Else whoever gives it up, or ends, waits for the resolver, and
  // all requests with it.
  set(easy, CURLOPT_QUICK_EXIT, 1L);
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);  // a store has many addresses, each good for a part of its rate
  set(easy, CURLOPT_HEADERFUNCTION, &HttpLoop::take_header);
  set(easy, CURLOPT_WRITEFUNCTION, &HttpLoop::take_body);
  if (!options_.ca_file.empty()) set(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (options_.no_proxy) set(easy, CURLOPT_NOPROXY, "*");
  return easy;
}

void HttpLoop::start(HttpExchange& exchange) {
  HEADRACE_ASSERT(exchange.easy == nullptr && exchange.sink != nullptr);
  CURL* const easy = take_easy();
  exchange.easy = easy;
  exchange.has_headers = false;
  for (const std::string& header : exchange.headers) {
    // ETags and keys come from outside. One with a line end would make a header of its own; without it the request is
    // refused, or answered with a version that is compared.
    if (header.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) continue;
    exchange.lines = ::curl_slist_append(exchange.lines, header.c_str());
  }
  set(easy, CURLOPT_URL, exchange.url.c_str());
  set(easy, CURLOPT_HTTPHEADER, exchange.lines);
  set(easy, CURLOPT_PRIVATE, &exchange);
  set(easy, CURLOPT_HEADERDATA, &exchange);
  set(easy, CURLOPT_WRITEDATA, &exchange);
  set(easy, CURLOPT_CUSTOMREQUEST, exchange.method == HttpExchange::Method::kPut ? "PUT" : nullptr);
  switch (exchange.method) {
    case HttpExchange::Method::kHead:
      set(easy, CURLOPT_NOBODY, 1L);
      break;
    case HttpExchange::Method::kPost:
      set(easy, CURLOPT_HTTPGET, 1L);  // ends a HEAD of before
      set(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(exchange.body.size()));
      set(easy, CURLOPT_POSTFIELDS, exchange.body.c_str());
      break;
    default:
      set(easy, CURLOPT_HTTPGET, 1L);
  }
  const CURLMcode added = ::curl_multi_add_handle(multi_, easy);
  HEADRACE_ASSERT(added == CURLM_OK);
}

void HttpLoop::give_back(HttpExchange& exchange) {
  ::curl_multi_remove_handle(multi_, exchange.easy);
  idle_.push_back(std::exchange(exchange.easy, nullptr));
  // It must not point to what will be gone, even though nobody uses it before it is set anew.
  set(idle_.back(), CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  // A token may be among them.
  for (curl_slist* line = exchange.lines; line != nullptr; line = line->next) {
    ::explicit_bzero(line->data, std::strlen(line->data));
  }
  ::curl_slist_free_all(std::exchange(exchange.lines, nullptr));
}

void HttpLoop::cancel(HttpExchange& exchange) {
  if (exchange.easy != nullptr) give_back(exchange);
}

int HttpLoop::watch(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* watched) {
  auto& loop = *static_cast<HttpLoop*>(self);
  if (what == CURL_POLL_REMOVE) {
    ::epoll_ctl(loop.epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
    ::curl_multi_assign(loop.multi_, socket, nullptr);
    return 0;
  }
  epoll_event event = {.events = 0, .data = {.fd = socket}};
  if ((what & CURL_POLL_IN) != 0) {
    event.events |= EPOLLIN;
    acknowledge_at_once(socket);
  }
  if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  const int add = watched == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(loop.epoll_.get(), add, socket, &event) != 0) {
    // The number was closed and is in use again, or the other way round.
    ::epoll_ctl(loop.epoll_.get(), add == EPOLL_CTL_ADD ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
  }
  ::curl_multi_assign(loop.multi_, socket, &loop);  // anything but null: it is watched
  return 0;
}

int HttpLoop::set_timer(CURLM* /*multi*/, long wait_ms, void* self) {
  static_cast<HttpLoop*>(self)->on_curl_timer(wait_ms);
  return 0;
}

void HttpLoop::on_curl_timer(long wait_ms) {
  has_timer_ = wait_ms >= 0;
  timer_ = Clock::now() + milliseconds(std::max(wait_ms, 0L));
}

std::size_t HttpLoop::take_header(char* line, std::size_t size, std::size_t count, void* exchange) {
  HttpExchange& self = *static_cast<HttpExchange*>(exchange);
  HttpSink& sink = *self.sink;
  std::string_view text(line, size * count);
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) {
    self.has_headers = true;  // the line behind the last one
  } else if (text.starts_with("HTTP/")) {
    self.has_headers = false;
    const std::size_t blank = std::min(text.find(' '), text.size());
    int status = 0;
    std::from_chars(text.data() + std::min(blank + 1, text.size()), text.data() + text.size(), status);
    sink.on_status(status);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    std::string_view value = text.substr(colon + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    sink.on_header(text.substr(0, colon), value);
  }
  return size * count;
}

std::size_t HttpLoop::take_body(char* bytes, std::size_t size, std::size_t count, void* exchange) {
  HttpSink& sink = *static_cast<HttpExchange*>(exchange)->sink;
  const std::size_t length = size * count;
  return sink.on_body({reinterpret_cast<const std::byte*>(bytes), length}) ? length : 0;
}

void HttpLoop::run_once(milliseconds wait_max) {
  milliseconds wait = wait_max;
  if (has_timer_) {
    const auto left = std::chrono::ceil<milliseconds>(timer_ - Clock::now());
    wait = std::clamp(left, milliseconds(0), wait_max);
  }
  std::array<epoll_event, 128> events = {};
  const int ready =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(wait.count()));
  int running = 0;
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == options_.stop_fd) continue;
    if (event.data.fd == wake_.fd()) {
      wake_.clear();
      continue;
    }
    unsigned what = 0;
    if ((event.events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
    if ((event.events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
    ::curl_multi_socket_action(multi_, event.data.fd, static_cast<int>(what), &running);
  }
  if (has_timer_ && Clock::now() >= timer_) {
    has_timer_ = false;  // libcurl sets another one if it wants
    ::curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  end_complete();
}

// One message at a time: what a sink does may take the next one away.
void HttpLoop::end_complete() {
  int left = 0;
  while (CURLMsg* const message = ::curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    CURL* const easy = message->easy_handle;
    HttpExchange* exchange = nullptr;
    ::curl_easy_getinfo(easy, CURLINFO_PRIVATE, &exchange);
    HttpEnd end;
    end.is_complete = code == CURLE_OK;
    end.never_connected = is_no_connection(code);
    end.is_untrusted = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    if (code != CURLE_OK) end.trouble = ::curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT) {
      curl_off_t connected = 0;
      ::curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected);
      end.never_connected = connected == 0;
      end.trouble = "no connection in time";
    }
    // To libcurl an answer may end at any line of its headers.
    if (end.is_complete && !exchange->has_headers) {
      end.is_complete = false;
      end.trouble = "the connection was lost within the headers";
    }
    give_back(*exchange);
    exchange->sink->on_end(end);
  }
}

}  // namespace headrace::cache
