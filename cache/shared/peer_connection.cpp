// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_connection.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/uio.h>

#include "headrace/io/printable.h"
#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

using Kind = PeerRequest::Kind;
using Outcome = PeerRequest::Outcome;

// Who is to read the source and does not store what it finds keeps others waiting no longer than this.
constexpr unsigned kSecondsToRead = 30;
constexpr std::string_view kLineEnd = "\r\n";
// A peer in the same room answers within a millisecond. One that moves no byte for so long hangs; the source answers
// sooner.
constexpr std::chrono::milliseconds kSilenceMax{200};
// A peer that moves bytes, but a request's own so late, is of no help either. What was asked for before it may take its
// time at the rate of a slow disk: behind a full link there is a queue, and the source would be no faster.
constexpr std::chrono::seconds kAnswerMax{2};
constexpr std::uint64_t kBytesPerSecondMin = std::uint64_t{16} << 20;
// Then the other peers have their turn; the rest is still there at the next look.
constexpr unsigned kReceivesMax = 64;

std::string command_for(const PeerRequest& request) {
  // Not with T: it would give the mark of somebody who reads the source a day to live, too.
  if (request.kind == Kind::kGet) return fmt::format("mg {} v t N{}\r\n", request.key, kSecondsToRead);
  if (request.kind == Kind::kRenew) return fmt::format("mg {} T{}\r\n", request.key, kSecondsToLive);
  return fmt::format("ms {} {} T{}\r\n", request.key, kSharedHeaderBytes + request.payload.size(),
                     request.seconds_to_live);
}

// Lets `count` bytes of the front of `parts` be gone.
void advance_by(std::span<iovec> parts, std::size_t count) {
  for (iovec& part : parts) {
    const std::size_t gone = std::min(count, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + gone;
    part.iov_len -= gone;
    count -= gone;
  }
}

// Without empty ones.
std::vector<std::string_view> split_words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    if (!word.empty()) words.push_back(word);
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
  return words;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

iovec part_of(const void* data, std::size_t bytes) {
  return {const_cast<void*>(data), bytes};  // writev(2) does not write there
}

}  // namespace

PeerConnection::PeerConnection(const PeerAddress& address, const PeerTls* tls)
    : stream_(address, tls), last_byte_(Clock::now()) {}

PeerConnection::~PeerConnection() {
  for (auto* queue : {&unanswered_, &unsent_}) {
    while (!queue->empty()) {
      const std::unique_ptr<PeerRequest> request = std::move(queue->front());
      queue->pop_front();
      request->done(Outcome::kFailed);
    }
  }
}

// Nobody waits for the answer. Half of a day's time is left then, so that a value is renewed twice a day at most.
void PeerConnection::renew(const SharedKey& key) {
  auto request = std::make_unique<PeerRequest>();
  request->kind = Kind::kRenew;
  request->key = key;
  request->done = [](Outcome) {};
  submit(std::move(request));
}

void PeerConnection::submit(std::unique_ptr<PeerRequest> request) {
  const Clock::time_point now = Clock::now();
  if (idle()) last_byte_ = now;  // the peer owed nothing until now
  queued_bytes_ += request->payload.size();
  request->late_at = now + kAnswerMax + std::chrono::milliseconds(queued_bytes_ * 1000 / kBytesPerSecondMin);
  unsent_.push_back(std::move(request));
}

PeerConnection::Clock::time_point PeerConnection::late_at() const {
  if (idle()) return Clock::time_point::max();
  const PeerRequest& first = unanswered_.empty() ? *unsent_.front() : *unanswered_.front();
  return std::min(last_byte_ + kSilenceMax, first.late_at);
}

bool PeerConnection::advance() {
  return error().empty() && send() && receive();
}

bool PeerConnection::fail(std::string reason) {
  stream_.fail(std::move(reason));
  return false;
}

bool PeerConnection::send() {
  while (!unsent_.empty()) {
    PeerRequest& request = *unsent_.front();
    if (command_.empty()) command_ = command_for(request);
    const bool is_put = request.kind == Kind::kPut;
    std::array<iovec, 4> parts = {part_of(command_.data(), command_.size()),
                                  part_of(request.header.data(), is_put ? kSharedHeaderBytes : 0),
                                  part_of(request.payload.data(), is_put ? request.payload.size() : 0),
                                  part_of(kLineEnd.data(), is_put ? kLineEnd.size() : 0)};
    advance_by(parts, sent_);
    const std::optional<std::size_t> count = stream_.send(parts);
    if (!count) return false;
    if (*count == 0) return true;
    // That a get goes out says nothing: the system takes thousands of them for a peer that hangs.
    if (is_put) last_byte_ = Clock::now();
    advance_by(parts, *count);
    sent_ += *count;
    const bool all = std::all_of(parts.begin(), parts.end(), [](const iovec& part) { return part.iov_len == 0; });
    if (!all) continue;
    unanswered_.push_back(std::move(unsent_.front()));
    unsent_.pop_front();
    command_.clear();
    sent_ = 0;
  }
  return true;
}

bool PeerConnection::receive() {
  for (unsigned i = 0; i < kReceivesMax || stream_.holds_more(); ++i) {
    const bool more = reading_ == Reading::kValue ? receive_value() : fill();
    if (!error().empty() || !consume()) return false;
    if (!more) break;
  }
  return true;
}

// As much of the value as there is, straight to where it belongs; what comes behind it into in_, which is empty. False:
// nothing for now, or an error.
bool PeerConnection::receive_value() {
  PeerRequest& request = *unanswered_.front();
  std::array<iovec, 3> parts = {iovec{request.header.data(), kSharedHeaderBytes},
                                iovec{request.payload.data(), request.payload.size()}, iovec{in_.data(), in_.size()}};
  advance_by(parts, value_at_);
  const std::size_t missing = parts[0].iov_len + parts[1].iov_len;
  const std::size_t count = stream_.receive(parts).value_or(0);
  if (count == 0) return false;
  note_received();
  value_at_ += std::min(count, missing);
  in_begin_ = 0;
  in_end_ = count - std::min(count, missing);
  return true;
}

// More into in_. False: nothing for now, or an error.
bool PeerConnection::fill() {
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= std::exchange(in_begin_, 0);
  }
  if (in_end_ == in_.size()) return fail("its answer is no line of memcached's");
  iovec rest = {in_.data() + in_end_, in_.size() - in_end_};
  const std::size_t count = stream_.receive({&rest, 1}).value_or(0);
  if (count == 0) return false;
  note_received();
  in_end_ += count;
  return true;
}

void PeerConnection::note_received() {
  last_byte_ = Clock::now();
  was_answered_ = true;
}

std::size_t PeerConnection::take(std::byte* into, std::size_t bytes) {
  const std::size_t taken = std::min(bytes, in_end_ - in_begin_);
  if (taken > 0) std::memcpy(into, in_.data() + in_begin_, taken);
  in_begin_ += taken;
  return taken;
}

// Works through what has come, until more is needed. False: an error.
bool PeerConnection::consume() {
  while (true) {
    if (reading_ == Reading::kSkip) {
      const std::uint64_t gone = std::min<std::uint64_t>(skip_, in_end_ - in_begin_);
      in_begin_ += gone;
      skip_ -= gone;
      if (skip_ > 0) return true;
      reading_ = Reading::kLine;
      answer(after_skip_);
    } else if (reading_ == Reading::kValue) {
      PeerRequest& request = *unanswered_.front();
      const std::size_t payload_bytes = request.payload.size();
      if (value_at_ < kSharedHeaderBytes) {
        value_at_ += take(request.header.data() + value_at_, kSharedHeaderBytes - value_at_);
      }
      if (value_at_ >= kSharedHeaderBytes) {
        const std::size_t at = value_at_ - kSharedHeaderBytes;
        value_at_ += take(request.payload.data() + at, payload_bytes - at);
      }
      if (value_at_ < kSharedHeaderBytes + payload_bytes) return true;
      after_skip_ = is_value_of(request.key, request.header, request.payload) ? Outcome::kDone : Outcome::kWrong;
      if (ends_soon_ && request.renews && after_skip_ == Outcome::kDone) renew(request.key);
      reading_ = Reading::kSkip;
      skip_ = kLineEnd.size();
    } else {
      const std::string_view rest(in_.data() + in_begin_, in_end_ - in_begin_);
      const std::size_t end = rest.find(kLineEnd);
      if (end == std::string_view::npos) return true;
      in_begin_ += end + kLineEnd.size();
      if (!on_line(rest.substr(0, end))) return false;
    }
  }
}

bool PeerConnection::on_line(std::string_view line) {
  if (unanswered_.empty()) return fail(fmt::format("it said '{}' unasked", io::printable(line.substr(0, 40))));
  const Kind kind = unanswered_.front()->kind;
  const std::string_view word = line.substr(0, line.find(' '));
  if (kind == Kind::kGet && word == "VA") return on_value(line);
  if (kind != Kind::kPut && word == "EN") {
    answer(Outcome::kMiss);
  } else if (kind != Kind::kGet && word == "HD") {
    answer(Outcome::kDone);
  } else if (kind == Kind::kPut && (word == "NS" || line.find("out of memory") != std::string_view::npos ||
                                    line.find("too large") != std::string_view::npos)) {
    answer(Outcome::kFull);
  } else {
    return fail(fmt::format("it said '{}'", io::printable(line.substr(0, 80))));
  }
  return true;
}

bool PeerConnection::on_value(std::string_view line) {
  PeerRequest& request = *unanswered_.front();
  std::vector<std::string_view> words = split_words(line);
  const std::optional<std::int64_t> bytes = words.size() > 1 ? number_in(words[1]) : std::nullopt;
  // A longer value than any of ours is none: memcached's own limit is 1 GiB.
  if (!bytes || *bytes < 0 || *bytes > (1LL << 30)) return fail("it gave a value without a size");
  std::optional<std::int64_t> seconds_left;
  after_skip_ = Outcome::kWrong;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i].front() == 't') seconds_left = number_in(words[i].substr(1));
    if (*bytes == 0 && words[i] == "W") after_skip_ = Outcome::kMiss;
    if (*bytes == 0 && words[i] == "Z") after_skip_ = Outcome::kComing;
  }
  if (static_cast<std::uint64_t>(*bytes) == kSharedHeaderBytes + request.payload.size()) {
    reading_ = Reading::kValue;
    value_at_ = 0;
    ends_soon_ = seconds_left && *seconds_left >= 0 && *seconds_left < kSecondsToLive / 2;
    return true;
  }
  reading_ = Reading::kSkip;
  skip_ = static_cast<std::uint64_t>(*bytes) + kLineEnd.size();
  return true;
}

void PeerConnection::answer(PeerRequest::Outcome outcome) {
  const std::unique_ptr<PeerRequest> request = std::move(unanswered_.front());
  unanswered_.pop_front();
  queued_bytes_ -= request->payload.size();
  request->done(outcome);
}

}  // namespace headrace::cache
