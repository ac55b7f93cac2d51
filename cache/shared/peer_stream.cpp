// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_stream.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "headrace/cache/shared/listener_owner.h"
#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

constexpr const char* kClosed = "it closed the connection";

std::string reason_of(int error) {
  return io::Error{io::code_from_errno(error), error, "connection"}.message();
}

bool would_wait(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOTCONN;
}

const iovec& first_of(std::span<iovec> parts) {
  return *std::find_if(parts.begin(), parts.end() - 1, [](const iovec& part) { return part.iov_len > 0; });
}

}  // namespace

PeerStream::PeerStream(const PeerAddress& address, const PeerTls* tls)
    : fd_(::socket(address.socket.generic.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (const auto user = tls == nullptr ? foreign_listener(address) : std::nullopt) {
    fail(fmt::format("user {} listens there, and could give other bytes", *user));
    return;
  }
  const int one = 1;  // a get is small and wanted at once
  if (fd_.valid()) ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!fd_.valid() || (::connect(fd_.get(), &address.socket.generic, address.length) != 0 && errno != EINPROGRESS)) {
    fail(reason_of(errno));
  } else if (tls != nullptr) {
    session_ = tls->connect(fd_.get());
    if (!session_) fail("TLS: no memory");
  }
}

void PeerStream::fail(std::string reason) {
  if (error_.empty()) error_ = std::move(reason);
}

std::optional<std::size_t> PeerStream::send(std::span<iovec> parts) {
  if (session_) {
    const iovec& part = first_of(parts);
    std::size_t bytes = 0;
    ::ERR_clear_error();
    const int result = ::SSL_write_ex(session_.get(), part.iov_base, part.iov_len, &bytes);
    sends_after_reading_ = result != 1 && ::SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ;
    return after_tls(result, bytes);
  }
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return after_call(::sendmsg(fd_.get(), &message, MSG_NOSIGNAL));
}

std::optional<std::size_t> PeerStream::receive(std::span<iovec> parts) {
  if (session_) {
    const iovec& part = first_of(parts);
    std::size_t bytes = 0;
    ::ERR_clear_error();
    const int result = ::SSL_read_ex(session_.get(), part.iov_base, part.iov_len, &bytes);
    return after_tls(result, bytes);
  }
  const ssize_t count = ::readv(fd_.get(), parts.data(), static_cast<int>(parts.size()));
  if (count == 0) fail(kClosed);
  return count == 0 ? std::nullopt : after_call(count);
}

bool PeerStream::holds_more() const {
  return session_ && ::SSL_pending(session_.get()) > 0;
}

std::optional<std::size_t> PeerStream::after_call(ssize_t count) {
  if (count >= 0) return static_cast<std::size_t>(count);
  if (would_wait(errno)) return 0;
  fail(reason_of(errno));
  return std::nullopt;
}

// A peer that refuses says why, and closes. Where sending meets the closed connection first, its words lie unread.
std::optional<std::string> PeerStream::said_last() {
  std::byte unread{};
  std::size_t bytes = 0;
  ::ERR_clear_error();
  const int result = ::SSL_read_ex(session_.get(), &unread, 1, &bytes);
  if (result == 1 || ::SSL_get_error(session_.get(), result) != SSL_ERROR_SSL) return std::nullopt;
  return PeerTls::reason_of(*session_);
}

std::optional<std::size_t> PeerStream::after_tls(int result, std::size_t bytes) {
  if (result == 1) return bytes;
  const int error = errno;
  switch (::SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return 0;
    case SSL_ERROR_ZERO_RETURN:
      fail(kClosed);
      break;
    case SSL_ERROR_SYSCALL:
      fail(said_last().value_or(error == 0 ? kClosed : reason_of(error)));
      break;
    default:
      fail(PeerTls::reason_of(*session_));
  }
  return std::nullopt;
}

}  // namespace headrace::cache
