// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <poll.h>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/unix_socket.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using io::system_error;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

io::Status wait_until_ready(int fd, short events, steady_clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return make_error(ErrorCode::kTimedOut, "the daemon does not answer");
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error(errno, "poll control socket");
  }
}

io::Status send_all(int fd, std::string_view bytes, steady_clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EPIPE || errno == ECONNRESET) return make_error(ErrorCode::kNotFound, "the daemon has ended");
    if (errno != EAGAIN && errno != EINTR) return system_error(errno, "send to the daemon");
    HEADRACE_TRY_DO(wait_until_ready(fd, POLLOUT, deadline));
  }
  return {};
}

}  // namespace

ControlClient::ControlClient(ControlClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ControlClient::~ControlClient() {
  if (fd_ >= 0) ::close(fd_);
}

io::Result<ControlClient> ControlClient::connect(const std::filesystem::path& socket) {
  HEADRACE_TRY(address, unix_address(socket));
  io::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return system_error(errno, "socket");
  // A daemon that is stopped accepts nobody, and once its queue is full connect() would wait for ever. All that is sent
  // and received later has a deadline of its own.
  constexpr timeval kPatience{.tv_sec = 4, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const bool nobody = errno == ENOENT || errno == ECONNREFUSED;
    if (nobody) return make_error(ErrorCode::kNotFound, "no daemon listens at " + socket.string());
    if (errno == EAGAIN) return make_error(ErrorCode::kTimedOut, "the daemon does not answer");
    return system_error(errno, "connect to " + socket.string());
  }
  return ControlClient(fd.release());
}

bool ControlClient::wait_for_hang_up(steady_clock::time_point deadline) {
  return wait_until_ready(fd_, POLLRDHUP, deadline).has_value();
}

pid_t ControlClient::peer() const {
  ucred listener{};  // as it was when listen() was called (unix(7), SO_PEERCRED)
  socklen_t length = sizeof listener;
  return ::getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &listener, &length) == 0 ? listener.pid : 0;
}

io::Result<std::string> ControlClient::ask(std::string_view line, milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  HEADRACE_TRY_DO(send_all(fd_, std::string(line) + "\n", deadline));
  std::string reply;
  char chunk[16384];
  while (reply.empty() || reply.back() != '\n') {
    HEADRACE_TRY_DO(wait_until_ready(fd_, POLLIN, deadline));
    const ssize_t count = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
    const bool has_ended = count == 0 || (count < 0 && errno == ECONNRESET);
    if (has_ended) return make_error(ErrorCode::kNotFound, "the daemon has ended");
    if (count < 0 && errno != EAGAIN && errno != EINTR) return system_error(errno, "receive from the daemon");
    if (count > 0) reply.append(chunk, static_cast<std::size_t>(count));
    if (reply.size() > kReplyBytesMax) return make_error(ErrorCode::kCorrupt, "the daemon's answer is too long");
  }
  reply.pop_back();
  return reply;
}

}  // namespace headrace::cli
