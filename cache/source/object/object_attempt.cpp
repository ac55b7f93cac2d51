// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_attempt.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>

#include <curl/curl.h>
#include <strings.h>

#include "headrace/cache/source/object/object_identity.h"
#include "headrace/cache/source/object/object_settings.h"
#include "headrace/cache/source/object/xml.h"
#include "headrace/cache/source/young_file.h"
#include "headrace/io/page_bytes.h"

namespace headrace::cache {
namespace {

// A page of a listing has 1 000 keys of at most 1 024 bytes, each of which takes three when encoded.
constexpr std::size_t kTextBytesMax = std::size_t{16} << 20;
constexpr std::size_t kErrorBytesMax = std::size_t{64} * 1024;

bool is_header(std::string_view name, std::string_view wanted) {
  return name.size() == wanted.size() && ::strncasecmp(name.data(), wanted.data(), name.size()) == 0;
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > std::uint64_t{INT64_MAX}) return std::nullopt;  // no file is so large
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<std::chrono::sys_seconds> http_date(std::string_view text) {
  const time_t time = ::curl_getdate(std::string(text).c_str(), nullptr);
  if (time < 0 || time > std::numeric_limits<std::int64_t>::max() / 1'000'000'000) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(time));
}

}  // namespace

bool is_of_whole_object(const ObjectRead& read) {
  return read.offset == 0 && read.length == read.object_bytes;
}

void ObjectAttempt::on_status(int status) {
  last_byte = Clock::now();
  answer_ = {};  // what came before was a "100 Continue", or the proxy's own
  date_.clear();
  answer_.status = status;
  found_ = {};
  content_length_.reset();
  range_begin_.reset();
  range_end_.reset();
  range_total_.reset();
  was_packed_ = false;
  is_packed_ = false;
}

void ObjectAttempt::on_header(std::string_view name, std::string_view value) {
  if (is_header(name, "etag")) {
    found_.etag = strong_etag(value);
  } else if (is_header(name, "content-length")) {
    content_length_ = take_number(value);
  } else if (is_header(name, "content-range") && value.starts_with("bytes ")) {
    value.remove_prefix(6);
    range_begin_ = take_number(value);
    value.remove_prefix(std::min<std::size_t>(1, value.size()));
    range_end_ = take_number(value);
    value.remove_prefix(std::min<std::size_t>(1, value.size()));
    range_total_ = take_number(value);  // "*": the store does not say
  } else if (is_header(name, "last-modified")) {
    const auto time = http_date(value);
    if (time) found_.mtime_ns = std::chrono::nanoseconds(time->time_since_epoch()).count();
  } else if (is_header(name, "date")) {
    date_ = value;
  } else if (is_header(name, "x-amz-bucket-region")) {
    if (may_be_region(value)) answer_.region = value;
  } else if (is_header(name, "location")) {
    answer_.location = value;
  } else if (is_header(name, "x-goog-stored-content-encoding")) {
    was_packed_ = is_header(value, "gzip");
  } else if (is_header(name, "content-encoding")) {
    is_packed_ = is_header(value, "gzip");
  } else if (is_header(name, "retry-after")) {
    if (const auto seconds = take_number(value)) {
      answer_.retry_after = std::chrono::seconds(std::min<std::uint64_t>(*seconds, 3600));
    }
  }
}

bool ObjectAttempt::goes_by_time() const {
  const bool is_any = read_ == nullptr || (read_->etag == nullptr && read_->mtime_ns == ObjectRead::kAnyTime);
  return !is_any && found_.etag.empty();
}

// An object that came, with a strong ETag, says nothing by it. To read a date takes 2 us.
bool ObjectAttempt::asks_for_date() const {
  return read_ == nullptr || !is_success() || goes_by_time();
}

ObjectAttempt::Mismatch ObjectAttempt::look_at_version() const {
  if (goes_by_time()) {
    if (read_->mtime_ns <= 0 || found_.mtime_ns <= 0) return Mismatch::kNoVersion;
    return found_.mtime_ns == read_->mtime_ns ? Mismatch::kNone : Mismatch::kOtherVersion;
  }
  const bool is_other = read_->etag != nullptr && !found_.etag.empty() && found_.etag != read_->etag;
  return is_other ? Mismatch::kOtherVersion : Mismatch::kNone;
}

bool ObjectAttempt::is_too_young() const {
  constexpr std::chrono::seconds kSafe{2};  // the one it was written in, and the one that Date was rounded down to
  if (!is_told_by_time()) return false;
  const auto here = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::chrono::nanoseconds now = answer_.date.value_or(here).time_since_epoch();
  const std::chrono::nanoseconds age = now - std::chrono::nanoseconds(found_.mtime_ns);
  return age < kSafe && -age <= kClockAheadMax;  // a clock that is plainly wrong holds nobody up
}

ObjectAttempt::Mismatch ObjectAttempt::look_at_headers() const {
  if (read_ == nullptr) return Mismatch::kNone;
  if (const Mismatch version = look_at_version(); version != Mismatch::kNone) return version;
  const bool is_part = answer_.status == 206;
  const std::optional<std::uint64_t> total = is_part ? range_total_ : content_length_;
  if (total && read_->object_bytes != ObjectRead::kAnySize && *total != read_->object_bytes) {
    const bool is_same = read_->etag != nullptr && found_.etag == read_->etag;
    return is_same ? Mismatch::kUnpacked : Mismatch::kOtherSize;
  }
  if (read_->length == 0) return total ? Mismatch::kNone : Mismatch::kNoSize;
  if (is_part) {
    const bool is_right = range_begin_ == read_->offset && range_end_ == read_->offset + read_->length - 1;
    return is_right ? Mismatch::kNone : Mismatch::kOtherRange;
  }
  // All of the object, though a part was asked for: it is of use where it is the same.
  const bool is_right = read_->offset == 0 && (!content_length_ || *content_length_ == read_->length);
  return is_right ? Mismatch::kNone : Mismatch::kOtherRange;
}

bool ObjectAttempt::on_body(std::span<const std::byte> bytes) {
  last_byte = Clock::now();
  if (read_ == nullptr || !is_success()) {
    const std::size_t most = is_success() ? kTextBytesMax : kErrorBytesMax;
    if (text_.size() + bytes.size() > most) return false;
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  has_headers_ = true;
  if (received_ == 0 && look_at_headers() != Mismatch::kNone) return false;
  if (!is_alone && goes_by_time()) return false;  // two versions of one second would be mixed
  if (received_ == 0) io::provide_pages(read_->into, read_->length);
  is_too_long_ = bytes.size() > read_->length - received_;
  if (is_too_long_) return false;
  std::memcpy(read_->into + received_, bytes.data(), bytes.size());
  received_ += bytes.size();
  return true;
}

bool ObjectAttempt::is_whole() const {
  return read_ == nullptr || received_ == read_->length;
}

ObjectAnswer ObjectAttempt::conclude(const HttpEnd& end) {
  has_headers_ = has_headers_ || end.is_complete;
  if (asks_for_date()) answer_.date = http_date(date_);
  answer_.is_broken = !end.is_complete;
  answer_.never_connected = end.never_connected;
  answer_.is_untrusted = end.is_untrusted;
  answer_.trouble = end.trouble;
  if (end.is_complete && is_success() && !is_whole()) {
    answer_.is_broken = true;
    answer_.trouble = "the answer is shorter than it should be";
  }
  if (answer_.status >= 300 && !text_.empty()) {
    StoreError error = parse_error(text_);
    answer_.code = std::move(error.code);
    answer_.message = std::move(error.message);
    if (answer_.region.empty() && may_be_region(error.region)) answer_.region = std::move(error.region);
    // An error that was told is one, even where the connection broke off behind it.
    if (!answer_.code.empty()) answer_.is_broken = false;
  }
  if (read_ != nullptr && is_success()) {
    const std::optional<std::uint64_t> total = answer_.status == 206 ? range_total_ : content_length_;
    found_.object_bytes = total.value_or(read_->offset + received_);
  }
  return answer_;
}

std::optional<io::Error> ObjectAttempt::mismatch(const std::string& what) const {
  if (!is_success() || !has_headers_) return std::nullopt;
  const Mismatch seen = look_at_headers();
  switch (seen == Mismatch::kNone && is_too_long_ ? Mismatch::kUnpacked : seen) {
    case Mismatch::kNone:
      return std::nullopt;
    case Mismatch::kNoVersion:
      return io::Error{io::ErrorCode::kUnsupported, 0,
                       what +
                           ": the store names neither a strong ETag nor Last-Modified, so that nothing would tell a "
                           "replaced object; it is not read"};
    case Mismatch::kOtherVersion:
      return io::Error{io::ErrorCode::kStale, 0, what + ": the object was replaced"};
    case Mismatch::kOtherSize:
      return io::Error{io::ErrorCode::kStale, 0, what + ": the object has another size than it had"};
    case Mismatch::kNoSize:
      return io::Error{io::ErrorCode::kUnsupported, 0, what + ": the store does not say how large the object is"};
    case Mismatch::kUnpacked:
      return io::Error{
          io::ErrorCode::kUnsupported, 0,
          what +
              ": the answer has another length than the object: a server on the way unpacks what is stored "
              "with Content-Encoding: gzip; store it without that, or name the store's own host with "
              "--endpoint"};
    case Mismatch::kOtherRange:
      return io::Error{io::ErrorCode::kUnsupported, 0,
                       what + ": the store answers with another range than was asked for"};
  }
  return std::nullopt;
}

}  // namespace headrace::cache
