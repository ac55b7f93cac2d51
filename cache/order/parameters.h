// SPDX-License-Identifier: Apache-2.0
// The parameters of an order's spec string, "FAMILY:NAME=VALUE,NAME=VALUE".
//
//   Parameters parameters(spec);
//   const std::uint64_t batch = parameters.integer("batch", 1, {.least = 1, .most = kMaxBatch});
//   if (Status good = parameters.finish(); !good) return forward_error(std::move(good));
//
// Every getter makes its name known. The first problem sticks; after it getters return the fallback, and finish()
// reports it. finish() also reports names that no getter asked for, with the names that are allowed. The value of "of"
// is the rest of the spec, commas and all. Thread-safety: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cache {

// A seed as Python has them: any integer up to 128 bits.
class Seed {
 public:
  Seed(std::uint64_t value = 0);  // NOLINT(google-explicit-constructor): a number is a seed
  [[nodiscard]] static std::optional<Seed> parse(std::string_view decimal);

  // What manual_seed keeps: the value modulo 2^64.
  [[nodiscard]] std::uint64_t low64() const;
  [[nodiscard]] std::uint32_t low32() const { return static_cast<std::uint32_t>(low64()); }
  // 32-bit words of the absolute value, low first, at least one: what CPython and numpy's SeedSequence start from.
  [[nodiscard]] std::vector<std::uint32_t> words() const;
  [[nodiscard]] bool negative() const { return negative_; }
  [[nodiscard]] Seed plus(std::uint64_t addend) const;

 private:
  unsigned __int128 magnitude_ = 0;
  bool negative_ = false;
};

// Both inclusive.
struct Bounds {
  std::uint64_t least = 0;
  std::uint64_t most = UINT64_MAX;
};

class Parameters {
 public:
  explicit Parameters(std::string_view spec);

  [[nodiscard]] const std::string& spec() const { return spec_; }
  [[nodiscard]] std::string_view family() const { return family_; }
  // Everything after the first colon, for families that take one value (file:PATH).
  [[nodiscard]] std::string_view whole() const { return whole_; }

  [[nodiscard]] std::uint64_t integer(std::string_view name, std::uint64_t fallback, Bounds bounds = {});
  [[nodiscard]] std::optional<std::uint64_t> optional_integer(std::string_view name, Bounds bounds = {});
  [[nodiscard]] std::optional<Bounds> range(std::string_view name, Bounds bounds);  // "3" or "3-7"
  [[nodiscard]] bool flag(std::string_view name, bool fallback);                    // 0 or 1
  [[nodiscard]] double number(std::string_view name, double fallback, double least, double most);
  [[nodiscard]] Seed seed(std::string_view name, Seed fallback);
  [[nodiscard]] std::vector<Seed> seeds(std::string_view name, Seed fallback);  // "42" or "42/1/7"
  // The index of the value in `allowed`; the first is the default.
  [[nodiscard]] std::size_t choice(std::string_view name, std::initializer_list<std::string_view> allowed);
  [[nodiscard]] std::optional<std::string> text(std::string_view name);

  // Lets a family report what concerns several parameters.
  void fail(std::string problem);
  [[nodiscard]] io::Status finish();
  // The names that were asked for, given or not.
  [[nodiscard]] const std::vector<std::string>& known() const { return known_; }

 private:
  // The value given, if any; makes the name known.
  [[nodiscard]] std::optional<std::string_view> take(std::string_view name);
  void reject(std::string_view name, std::string_view value, std::string_view allowed);

  std::string spec_;
  std::string family_;
  std::string whole_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> known_;
  std::string problem_;
};

}  // namespace headrace::cache
