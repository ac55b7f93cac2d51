// SPDX-License-Identifier: Apache-2.0
// One thread runs one poll loop; no connection ever blocks it. A connection reads until it has a line, then it writes
// the answer, and so on. Each of the two may take `patience`, so a stuck peer costs a slot for a bounded time only.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/unix_socket.h"
#include "headrace/io/log.h"
#include "headrace/io/unique_fd.h"
#include "headrace/io/wake_event.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::system_error;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Connection {
  io::UniqueFd fd;
  std::string input;
  std::string output;  // not empty: the answer is being written, and nothing is read meanwhile
  steady_clock::time_point deadline;
};

bool peer_is_owner(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

enum class Connected { kGoesOn, kEnds };

// Reads what has arrived. kEnds: the peer hung up or broke the bounds.
Connected receive(Connection& connection) {
  char chunk[4096];
  while (true) {
    const ssize_t count = ::recv(connection.fd.get(), chunk, sizeof chunk, 0);
    if (count == 0) return Connected::kEnds;
    if (count < 0) return errno == EAGAIN || errno == EINTR ? Connected::kGoesOn : Connected::kEnds;
    connection.input.append(chunk, static_cast<std::size_t>(count));
    if (connection.input.size() > kRequestBytesMax) {
      io::log_warning("control socket: a request of more than {} bytes was refused", kRequestBytesMax);
      return Connected::kEnds;
    }
    if (connection.input.find('\n') != std::string::npos) return Connected::kGoesOn;
  }
}

Connected transmit(Connection& connection) {
  while (!connection.output.empty()) {
    const ssize_t count = ::send(connection.fd.get(), connection.output.data(), connection.output.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR ? Connected::kGoesOn : Connected::kEnds;
    connection.output.erase(0, static_cast<std::size_t>(count));
  }
  return Connected::kGoesOn;
}

std::optional<std::string> take_line(std::string& input) {
  const std::size_t end = input.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = input.substr(0, end);
  input.erase(0, end + 1);
  return line;
}

// One that has too many connections hangs up as well, and is asked no faster than this.
constexpr milliseconds kAfterHangUp{20};

// Removes a socket file that a dead process left behind: nobody answers there, or soon nobody does.
io::Status clear_stale(const fs::path& socket, milliseconds patience) {
  // A link is left of a mount that was shown here once: who answers there is the daemon of another place.
  std::error_code failure;
  if (fs::is_symlink(socket, failure)) fs::remove(socket, failure);
  const auto deadline = steady_clock::now() + patience;
  while (auto other = ControlClient::connect(socket)) {
    if (!other->wait_for_hang_up(deadline)) {
      return io::make_error(io::ErrorCode::kBusy, "control socket " + socket.string() + ": another daemon answers");
    }
    std::this_thread::sleep_for(kAfterHangUp);
  }
  if (::unlink(socket.c_str()) != 0 && errno != ENOENT) return system_error(errno, "remove " + socket.string());
  return {};
}

io::Result<io::UniqueFd> listen_at(const fs::path& socket, milliseconds leave_patience) {
  HEADRACE_TRY(address, unix_address(socket));
  HEADRACE_TRY_DO(clear_stale(socket, leave_patience));
  io::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // fchmod before bind decides the mode of the socket file, so it is never open to others, not even for a moment.
  constexpr int kBacklog = 16;
  if (fd.get() < 0 || ::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return system_error(errno, "control socket " + socket.string());
  }
  return fd;
}

}  // namespace

struct ControlServer::Impl {
  fs::path socket;
  Answer answer;
  Limits limits;
  io::UniqueFd listener;
  io::WakeEvent stop;
  std::vector<Connection> connections;  // only the server thread uses them
  std::thread thread;

  void run();
  void accept_one();
  [[nodiscard]] Connected serve(Connection& connection, short events);
  [[nodiscard]] int poll_timeout_ms() const;
};

void ControlServer::Impl::accept_one() {
  io::UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.get() < 0) {
    // Without a free descriptor the connection stays in the queue and would wake poll() at once, again and again.
    if (errno == EMFILE || errno == ENFILE) ::poll(nullptr, 0, 100);
    return;
  }
  if (!peer_is_owner(fd.get())) return;
  if (connections.size() >= limits.connections_max) {
    io::log_warning("control socket: more than {} connections, one was refused", limits.connections_max);
    return;
  }
  connections.push_back({std::move(fd), {}, {}, steady_clock::now() + limits.patience});
}

Connected ControlServer::Impl::serve(Connection& connection, short events) {
  if ((events & POLLIN) != 0 && receive(connection) == Connected::kEnds) return Connected::kEnds;
  if ((events & POLLOUT) != 0 && transmit(connection) == Connected::kEnds) return Connected::kEnds;
  while (connection.output.empty()) {
    std::optional<std::string> line = take_line(connection.input);
    if (!line) break;
    connection.output = answer(*line) + "\n";
    connection.deadline = steady_clock::now() + limits.patience;
    if (transmit(connection) == Connected::kEnds) return Connected::kEnds;
  }
  const bool hung_up = (events & (POLLERR | POLLHUP)) != 0 && (events & POLLIN) == 0;
  return hung_up || steady_clock::now() >= connection.deadline ? Connected::kEnds : Connected::kGoesOn;
}

int ControlServer::Impl::poll_timeout_ms() const {
  if (connections.empty()) return -1;
  const auto earliest = std::min_element(connections.begin(), connections.end(),
                                         [](const auto& a, const auto& b) { return a.deadline < b.deadline; });
  const auto left = std::chrono::ceil<milliseconds>(earliest->deadline - steady_clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(0, left.count()));
}

void ControlServer::Impl::run() {
  ::pthread_setname_np(::pthread_self(), "hr-control");
  std::vector<pollfd> watched;
  while (true) {
    watched.assign({{stop.fd(), POLLIN, 0}, {listener.get(), POLLIN, 0}});
    for (const Connection& connection : connections) {
      const short wanted = connection.output.empty() ? POLLIN : POLLOUT;
      watched.push_back({connection.fd.get(), wanted, 0});
    }
    if (::poll(watched.data(), watched.size(), poll_timeout_ms()) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    for (std::size_t i = connections.size(); i-- > 0;) {
      if (serve(connections[i], watched[i + 2].revents) == Connected::kEnds) {
        connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (watched[1].revents != 0) accept_one();
  }
}

ControlServer::ControlServer() : impl_(std::make_unique<Impl>()) {}

ControlServer::~ControlServer() {
  if (impl_->thread.joinable()) {
    impl_->stop.set();
    impl_->thread.join();
    ::unlink(impl_->socket.c_str());
  }
}

io::Result<std::unique_ptr<ControlServer>> ControlServer::start(const fs::path& socket, Answer answer, Limits limits) {
  HEADRACE_TRY(listener, listen_at(socket, limits.leave_patience));
  auto server = std::unique_ptr<ControlServer>(new ControlServer());
  Impl& impl = *server->impl_;
  impl.socket = socket;
  impl.answer = std::move(answer);
  impl.limits = limits;
  impl.listener = std::move(listener);
  if (!impl.stop.valid()) return system_error(errno, "eventfd");
  impl.thread = std::thread([&impl] { impl.run(); });
  return server;
}

}  // namespace headrace::cli
