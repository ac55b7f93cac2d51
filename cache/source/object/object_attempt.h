// SPDX-License-Identifier: Apache-2.0
// One request on its way for a read or a query, and what the store has answered so far. Whether the answer is of the
// version that is wanted is decided by its headers; only then the body is written where the reader wants it.
//
// Thread-safety: the client's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "headrace/cache/source/object/http_loop.h"
#include "headrace/cache/source/object/key_keeper.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/object_verdict.h"

namespace headrace::cache {

class ObjectAttempt : public HttpSink {
 public:
  using Clock = std::chrono::steady_clock;
  using OnEnd = std::function<void(ObjectAttempt& self, const HttpEnd& end)>;

  // Of one of the two.
  ObjectAttempt(const ObjectRead* read, OnEnd on_end) : read_(read), on_end_(std::move(on_end)) {}

  void on_status(int status) override;
  void on_header(std::string_view name, std::string_view value) override;
  bool on_body(std::span<const std::byte> bytes) override;
  void on_end(const HttpEnd& end) override { on_end_(*this, end); }

  // What the answer was, after its end; not broken if all that was wanted has come.
  [[nodiscard]] ObjectAnswer conclude(const HttpEnd& end);
  // Why an answer that says 200 is not what was wanted; nullopt: it is, or it was lost before it said so.
  [[nodiscard]] std::optional<io::Error> mismatch(const std::string& what) const;

  // It was stored with gzip, and came without: neither its length nor its range is what was asked for. Cloud Storage
  // says so, under whichever name it is reached.
  [[nodiscard]] bool is_unpacked() const { return is_success() && was_packed_ && !is_packed_; }

  // It was told apart by its time alone, and that second is hardly over: another version may have the same.
  [[nodiscard]] bool is_too_young() const;
  // An answer that has no strong ETag where one is known, or time alone is.
  [[nodiscard]] bool is_told_by_time() const { return is_success() && goes_by_time(); }

  [[nodiscard]] const ObjectRead::Found& found() const { return found_; }
  [[nodiscard]] std::string& text() { return text_; }  // of a query's answer, or of an error's
  [[nodiscard]] std::uint64_t received() const { return received_; }

  HttpExchange exchange;
  std::uint64_t job = 0;
  bool is_hedge = false;
  bool is_alone = true;  // no other attempt writes to the same memory
  Clock::time_point sent = {};
  Clock::time_point last_byte = {};
  KeyKeeper::KeysPtr keys = {};  // signed with; null: not renewable

 private:
  [[nodiscard]] bool is_success() const { return answer_.status == 200 || answer_.status == 206; }
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] bool goes_by_time() const;
  [[nodiscard]] bool asks_for_date() const;

  enum class Mismatch : std::uint8_t { kNone, kOtherVersion, kNoVersion, kOtherSize, kNoSize, kOtherRange, kUnpacked };
  [[nodiscard]] Mismatch look_at_headers() const;
  [[nodiscard]] Mismatch look_at_version() const;

  const ObjectRead* const read_;  // null: a query
  const OnEnd on_end_;
  ObjectAnswer answer_;
  std::string date_;  // as it was told
  ObjectRead::Found found_;
  std::optional<std::uint64_t> content_length_;
  std::optional<std::uint64_t> range_begin_;
  std::optional<std::uint64_t> range_end_;  // the last byte
  std::optional<std::uint64_t> range_total_;
  bool has_headers_ = false;  // all of them
  std::uint64_t received_ = 0;
  bool is_too_long_ = false;
  bool was_packed_ = false;  // when it was stored
  bool is_packed_ = false;   // as it came
  std::string text_;
};

// The whole object is wanted, which needs no range.
[[nodiscard]] bool is_of_whole_object(const ObjectRead& read);

}  // namespace headrace::cache
