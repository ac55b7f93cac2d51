// SPDX-License-Identifier: Apache-2.0
// The header is a Python dictionary as text: numpy.lib.format describes it. Three keys of it are looked for.
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kHeaderMax = std::size_t{64} * 1024;  // numpy itself reads 10 000 at most unless told otherwise

std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::size_t value = header.find_first_not_of(" :", at + key.size());
  return value == std::string_view::npos ? std::string_view() : header.substr(value);
}

// The number that `text` begins with, which is cut off.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// '<f4' -> 4; nothing for types without a fixed size in the file.
std::optional<std::uint64_t> item_bytes(std::string_view descr) {
  if (descr.size() < 4 || descr[0] != '\'') return std::nullopt;
  const char kind = descr[2];
  if (std::string_view("biufcSUVmM").find(kind) == std::string_view::npos) return std::nullopt;
  descr.remove_prefix(3);
  const std::optional<std::uint64_t> size = take_number(descr);
  if (!size || *size == 0 || *size > UINT32_MAX / 4) return std::nullopt;
  return kind == 'U' ? *size * 4 : *size;
}

struct Shape {
  std::uint64_t rows = 0;
  std::uint64_t row_items = 1;
};

std::optional<Shape> shape_of(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  Shape shape;
  const std::optional<std::uint64_t> rows = take_number(text);
  if (!rows) return std::nullopt;
  shape.rows = *rows;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
    if (text.starts_with(')')) return shape;
    const std::optional<std::uint64_t> items = take_number(text);
    if (!items || __builtin_mul_overflow(shape.row_items, *items, &shape.row_items)) return std::nullopt;
  }
}

}  // namespace

io::Result<RecordMap> map_npy(const PackFile& pack) {
  std::array<std::byte, 12> head{};
  HEADRACE_TRY_DO(pack.read(0, head));
  if (std::memcmp(head.data(), "\x93NUMPY", 6) != 0) return pack.corrupt("it is no .npy");
  const bool first_version = head[6] == std::byte{1};
  const std::size_t header_at = first_version ? 10 : 12;
  const std::uint32_t header_bytes =
      first_version ? little_endian<std::uint16_t>(head, 8) : little_endian<std::uint32_t>(head, 8);
  if (header_bytes > kHeaderMax) return pack.corrupt("the header of this .npy is too long");
  std::string header(header_bytes, '\0');
  HEADRACE_TRY_DO(pack.read(header_at, std::as_writable_bytes(std::span(header))));

  const std::optional<std::uint64_t> item = item_bytes(value_of(header, "'descr'"));
  if (!item) return pack.unsupported("rows of this type have no fixed size");
  if (!value_of(header, "'fortran_order'").starts_with("False")) {
    return pack.unsupported("rows of an array in Fortran order do not lie together");
  }
  const std::optional<Shape> shape = shape_of(value_of(header, "'shape'"));
  std::uint64_t row_bytes = 0;
  if (!shape || __builtin_mul_overflow(*item, shape->row_items, &row_bytes)) {
    return pack.corrupt("the shape of this array makes no sense");
  }
  auto map = RecordMap::strided(pack.size(), header_at + header_bytes, row_bytes, shape->rows);
  if (!map) return pack.corrupt(map.error().context);
  return map;
}

}  // namespace headrace::cache
