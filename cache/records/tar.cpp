// SPDX-License-Identifier: Apache-2.0
// tar, as POSIX.1-2001 (pax) and GNU tar write it: headers of 512 bytes with the size of what follows, in whole blocks
// of 512. The members of one sample of WebDataset (github.com/webdataset/webdataset, tariterators.py) lie in a row, and
// their paths agree up to the first dot of the name. Links, folders and devices among them are passed over, as there.
// There is no index: the walk reads a header per member.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kNameMax = 65536;  // of a header that holds a name or attributes; PATH_MAX is 4096
using Block = std::array<std::byte, kBlock>;

std::string_view text_of(const Block& block, std::size_t at, std::size_t bytes) {
  const std::string_view field(reinterpret_cast<const char*>(block.data()) + at, bytes);
  return field.substr(0, field.find('\0'));
}

// Octal digits, or binary where the first bit is set (GNU).
std::optional<std::uint64_t> number_of(const Block& block, std::size_t at, std::size_t bytes) {
  std::uint64_t number = 0;
  if ((block[at] & std::byte{0x80}) != std::byte{0}) {
    if (block[at] != std::byte{0x80}) return std::nullopt;  // negative, or larger than any file
    for (std::size_t i = 1; i < bytes; ++i) {
      if (number >> 56 != 0) return std::nullopt;
      number = number << 8 | static_cast<std::uint64_t>(block[at + i]);
    }
    return number;
  }
  std::string_view digits = text_of(block, at, bytes);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

bool has_right_sum(const Block& block) {
  constexpr std::size_t kSumAt = 148;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    sum += i >= kSumAt && i < kSumAt + 8 ? ' ' : static_cast<std::uint64_t>(block[i]);
  }
  return number_of(block, kSumAt, 8) == sum;
}

// What agrees among the members of a sample.
std::string_view key_of(std::string_view path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 where there is none
  return path.substr(0, path.find('.', name + 1));
}

class TarWalk {
 public:
  explicit TarWalk(const PackFile& pack) : pack_(pack), heads_(pack), map_(pack.size()) {}

  io::Result<RecordMap> walk() {
    while (pack_.size() - at_ >= kBlock) {
      HEADRACE_TRY_DO(heads_.read(at_, block_));
      if (std::ranges::all_of(block_, [](std::byte byte) { return byte == std::byte{0}; })) break;  // the end
      HEADRACE_TRY_DO(take_header());
    }
    HEADRACE_TRY_DO(end_sample());
    return std::move(map_);
  }

 private:
  io::Status take_header() {
    if (!has_right_sum(block_)) return pack_.corrupt("a header of this tar fails its checksum");
    const auto type = static_cast<char>(block_[156]);
    const std::optional<std::uint64_t> said = number_of(block_, 124, 12);
    // Links, folders and devices have no content, whatever their size says.
    const bool has_content = type < '1' || type > '6';
    const std::uint64_t bytes = !has_content ? 0 : std::exchange(pax_size_, {}).value_or(said.value_or(UINT64_MAX));
    const std::uint64_t room = pack_.size() - at_ - kBlock;
    if (bytes > room) return pack_.corrupt("a member of this tar ends outside of the file");
    const std::uint64_t padded = std::min(room, (bytes + kBlock - 1) / kBlock * kBlock);
    if (type == 'S') return pack_.unsupported("a tar with sparse files has no record map");
    if (!begin_) begin_ = at_;
    if (type == 'L' || type == 'x') {
      HEADRACE_TRY_DO(take_extension(type, bytes));
    } else if (type == '0' || type == '\0' || type == '7') {
      HEADRACE_TRY_DO(take_member(at_ + kBlock + padded));
    } else if (type != 'K') {
      begin_.reset();  // a folder, a link or attributes for all: the sample around it goes on
      long_path_.clear();
      pax_size_.reset();
    }
    at_ += kBlock + padded;
    return {};
  }

  // The path or the size of the member that follows.
  io::Status take_extension(char type, std::uint64_t bytes) {
    if (bytes > kNameMax) return pack_.corrupt("a name in this tar is too long");
    std::string content(bytes, '\0');
    HEADRACE_TRY_DO(heads_.read(at_ + kBlock, std::as_writable_bytes(std::span(content))));
    if (type == 'L') {
      long_path_ = content.substr(0, content.find('\0'));
      return {};
    }
    // Lines of "LENGTH KEY=VALUE\n", the length that of the whole line.
    for (std::string_view rest = content; !rest.empty();) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
      const auto digits = static_cast<std::size_t>(end - rest.data());
      if (error != std::errc() || length <= digits + 1 || length > rest.size()) {
        return pack_.corrupt("attributes in this tar make no sense");
      }
      take_attribute(rest.substr(digits + 1, length - digits - 2));
      rest.remove_prefix(length);
    }
    return {};
  }

  void take_attribute(std::string_view line) {
    if (line.starts_with("path=")) long_path_ = line.substr(5);
    if (!line.starts_with("size=")) return;
    std::uint64_t size = 0;
    const auto [end, error] = std::from_chars(line.data() + 5, line.data() + line.size(), size);
    pax_size_ = error == std::errc() && end == line.data() + line.size() ? size : UINT64_MAX;
  }

  io::Status take_member(std::uint64_t end) {
    std::string path = std::exchange(long_path_, {});
    if (path.empty()) {
      const std::string_view folder = text_of(block_, 345, 155);
      const bool is_posix = text_of(block_, 257, 6) == "ustar";  // GNU has times there
      if (is_posix && !folder.empty()) path = std::string(folder) + '/';
      path += text_of(block_, 0, 100);
    }
    const std::string_view key = key_of(path);
    const std::uint64_t begin = *std::exchange(begin_, {});
    if (sample_end_ == 0 || key != sample_key_) {
      HEADRACE_TRY_DO(end_sample());
      sample_begin_ = begin;
      sample_key_ = key;
    }
    sample_end_ = end;
    return {};
  }

  io::Status end_sample() {
    if (sample_end_ == 0) return {};
    const io::Status added = map_.add(sample_begin_, std::exchange(sample_end_, 0) - sample_begin_);
    return added ? added : io::Status(pack_.corrupt(added.error().context));
  }

  const PackFile& pack_;
  PackWalk heads_;
  RecordMap map_;
  Block block_ = {};
  std::uint64_t at_ = 0;
  std::optional<std::uint64_t> begin_;  // of the member whose headers are being read
  std::string long_path_;
  std::optional<std::uint64_t> pax_size_;
  std::uint64_t sample_begin_ = 0;
  std::uint64_t sample_end_ = 0;  // 0: no sample has begun
  std::string sample_key_;
};

}  // namespace

io::Result<RecordMap> map_tar(const PackFile& pack) {
  return TarWalk(pack).walk();
}

}  // namespace headrace::cache
