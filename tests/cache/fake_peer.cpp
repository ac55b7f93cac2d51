// SPDX-License-Identifier: Apache-2.0
#include "fake_peer.h"

#include <array>
#include <sstream>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace headrace::test {
namespace {

bool send_all(int fd, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool receive_more(int fd, std::string& in) {
  std::array<char, 16384> part;
  const ssize_t count = ::recv(fd, part.data(), part.size(), 0);
  if (count <= 0) return false;
  in.append(part.data(), static_cast<std::size_t>(count));
  return true;
}

}  // namespace

FakePeer::FakePeer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(listener_.get(), 16) == 0);
  REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FakePeer::~FakePeer() {
  {
    const std::lock_guard lock(mutex_);
    closing_.store(true);
  }
  asked_.notify_all();
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  for (std::thread& connection : connections_) connection.join();
  for (const int fd : open_) ::close(fd);
}

std::size_t FakePeer::size() const {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

void FakePeer::spoil() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, value] : values_) value.back() = static_cast<char>(value.back() ^ 1);
}

void FakePeer::hang_up() {
  const std::lock_guard lock(mutex_);
  for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
}

void FakePeer::accept_all() {
  while (!closing_.load()) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    connections_.emplace_back([this, fd] { serve(fd); });
  }
}

void FakePeer::serve(int fd) {
  std::string in;
  while (true) {
    const std::size_t end = in.find("\r\n");
    if (end == std::string::npos) {
      if (!receive_more(fd, in)) break;
      continue;
    }
    const std::string line = in.substr(0, end);
    in.erase(0, end + 2);
    if (!answer(fd, line, in)) break;
  }
  ::shutdown(fd, SHUT_RDWR);
}

bool FakePeer::answer(int fd, const std::string& line, std::string& in) {
  std::istringstream words(line);
  std::string verb;
  std::string key;
  std::string first;
  words >> verb >> key >> first;
  if (verb == "mg" && first.starts_with('T')) {
    ++renewals_;
    return send_all(fd, "HD\r\n");
  }
  if (verb == "ms") {
    const std::size_t bytes = std::stoul(first);
    while (in.size() < bytes + 2) {
      if (!receive_more(fd, in)) return false;
    }
    if (way_.load() == Way::kIsFull) {
      in.erase(0, bytes + 2);
      return send_all(fd, "SERVER_ERROR out of memory storing object\r\n");
    }
    std::unique_lock lock(mutex_);
    if (way_.load() == Way::kStoresLate) {
      asked_.wait(lock, [&] { return asked_meanwhile_[key] >= 2 || closing_.load(); });
    }
    values_[key] = in.substr(0, bytes);
    asked_meanwhile_.erase(key);
    in.erase(0, bytes + 2);
    return send_all(fd, "HD\r\n");
  }
  ++gets_;
  while (way_.load() == Way::kHolds && !closing_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (way_.load() == Way::kIsSilent) return true;
  if (way_.load() == Way::kTalksNonsense) return send_all(fd, "\x1b[2J HTTP/1.1 400 Bad Request\r\n\r\n");
  return give(fd, key);
}

bool FakePeer::give(int fd, const std::string& key) {
  std::string value;
  {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) {
      const bool is_first = asked_meanwhile_.emplace(key, 0).second && way_.load() != Way::kNeverHas;
      if (!is_first) ++asked_meanwhile_[key];
      asked_.notify_all();
      return send_all(fd, is_first ? "VA 0 t-1 W\r\n\r\n" : "VA 0 t30 Z\r\n\r\n");
    }
    value = found->second;
    if (way_.load() == Way::kGivesOther) {
      for (const auto& [other, bytes] : values_) {
        if (other != key && bytes.size() == value.size()) value = bytes;
      }
    }
  }
  if (way_.load() == Way::kFlipsBits) value.back() = static_cast<char>(value.back() ^ 1);
  if (way_.load() == Way::kIsShort) value.pop_back();
  const std::string head = "VA " + std::to_string(value.size()) + " t" + std::to_string(seconds_left_.load()) + "\r\n";
  if (way_.load() == Way::kBreaksOff) {
    static_cast<void>(send_all(fd, head + value.substr(0, value.size() / 2)));
    return false;
  }
  return send_all(fd, head + value + "\r\n");
}

}  // namespace headrace::test
