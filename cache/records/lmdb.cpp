// SPDX-License-Identifier: Apache-2.0
// A walk of LMDB's B+tree with pread. The layout is that of lmdb 0.9's mdb.c on 64-bit little-endian machines
// (MDB_DATA_VERSION 1): page header, MDB_meta, MDB_db and MDB_node.
//
//   page:  u64 number, u16 pad, u16 flags, u16 lower, u16 upper; then u16 node offsets up to `lower`
//   node:  u16 low, u16 high, u16 flags, u16 key bytes, key, value
//          branch: low | high << 16 | flags << 32 is a page; leaf: low | high << 16 is the length of the value
#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::uint32_t kLmdbMagic = 0xBEEFC0DE;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPageHeader = 16;
constexpr std::size_t kNodeHeader = 8;
constexpr std::uint16_t kBranch = 0x01, kLeaf = 0x02, kFixedLeaf = 0x20;
constexpr std::uint16_t kBigData = 0x01, kSubDatabase = 0x02, kDuplicates = 0x04;
constexpr std::uint64_t kNoPage = UINT64_MAX;
constexpr std::size_t kPageBytesMin = 256;
constexpr std::size_t kPageBytesMax = std::size_t{64} * 1024;
constexpr int kDepthMax = 32;  // CURSOR_STACK of mdb.c

struct Meta {
  std::size_t page_bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t root = kNoPage;
  std::uint64_t transaction = 0;
};

io::Result<Meta> read_meta(const PackFile& pack, std::uint64_t at) {
  std::array<std::byte, kPageHeader + 136> page{};
  HEADRACE_TRY_DO(pack.read(at, page));
  const auto meta = std::span<const std::byte>(page).subspan(kPageHeader);
  if (little_endian<std::uint32_t>(meta, 0) != kLmdbMagic) return pack.corrupt("a meta page of this LMDB is missing");
  if (little_endian<std::uint32_t>(meta, 4) != kVersion) return pack.unsupported("an LMDB of another version");
  const Meta found{.page_bytes = little_endian<std::uint32_t>(meta, 24),
                   .entries = little_endian<std::uint64_t>(meta, 104),
                   .root = little_endian<std::uint64_t>(meta, 112),
                   .transaction = little_endian<std::uint64_t>(meta, 128)};
  if (found.page_bytes < kPageBytesMin || found.page_bytes > kPageBytesMax ||
      (found.page_bytes & (found.page_bytes - 1)) != 0) {
    return pack.corrupt("the page size of this LMDB makes no sense");
  }
  return found;
}

bool describes_the_set(std::string_view key) {
  return key.starts_with("__") || key == "length" || key == "num-samples";
}

class Walk {
 public:
  Walk(const PackFile& pack, const Meta& meta)
      : pack_(pack),
        page_bytes_(meta.page_bytes),
        entries_(meta.entries),
        pages_left_(pack.size() / meta.page_bytes),
        map_(pack.size()) {}

  io::Status visit(std::uint64_t number, int depth) {
    // A tree has no page twice: more visits than pages is a cycle, or branches that meet.
    if (depth > kDepthMax || pages_left_-- == 0) return pack_.corrupt("the pages of this LMDB run in a circle");
    if (number >= pack_.size() / page_bytes_) return pack_.corrupt("a page of this LMDB lies outside of the file");
    std::vector<std::byte> page(page_bytes_);
    HEADRACE_TRY_DO(pack_.read(number * page_bytes_, page));
    const auto flags = little_endian<std::uint16_t>(page, 10);
    const std::size_t lower = little_endian<std::uint16_t>(page, 12);
    if (lower < kPageHeader || lower > page_bytes_ || (flags & kFixedLeaf) != 0 ||
        ((flags & kBranch) != 0) == ((flags & kLeaf) != 0)) {
      return pack_.corrupt("a page of this LMDB makes no sense");
    }
    for (std::size_t at = kPageHeader; at + 2 <= lower; at += 2) {
      const std::size_t node = little_endian<std::uint16_t>(page, at);
      if (node < lower || node + kNodeHeader > page_bytes_) return bad_node();
      HEADRACE_TRY_DO((flags & kBranch) != 0 ? visit(child(page, node), depth + 1) : value(number, page, node));
    }
    return {};
  }

  io::Result<RecordMap> finish() {
    if (values_ != entries_) return pack_.corrupt("this LMDB has another number of values than it says");
    if (numbers_.size() == map_.count() && is_permutation()) map_.renumber(numbers_);
    return std::move(map_);
  }

 private:
  [[nodiscard]] tl::unexpected<io::Error> bad_node() const {
    return pack_.corrupt("an entry of this LMDB ends outside of its page");
  }

  static std::uint64_t child(std::span<const std::byte> page, std::size_t node) {
    return little_endian<std::uint32_t>(page, node) | std::uint64_t{little_endian<std::uint16_t>(page, node + 4)} << 32;
  }

  io::Status value(std::uint64_t page_number, std::span<const std::byte> page, std::size_t node) {
    const std::uint64_t length = little_endian<std::uint32_t>(page, node);
    const auto flags = little_endian<std::uint16_t>(page, node + 4);
    const std::size_t key_bytes = little_endian<std::uint16_t>(page, node + 6);
    const std::size_t data = node + kNodeHeader + key_bytes;
    const bool big = (flags & kBigData) != 0;
    if (data > page.size() || (big ? 8 : length) > page.size() - data) return bad_node();
    if ((flags & (kSubDatabase | kDuplicates)) != 0) {
      return pack_.unsupported("an LMDB with named databases or several values per key has no record map");
    }
    // Before it takes memory: nodes may be named again and again.
    if (++values_ > entries_) return pack_.corrupt("this LMDB has more values than it says");
    const std::string_view key(reinterpret_cast<const char*>(page.data()) + node + kNodeHeader, key_bytes);
    if (describes_the_set(key)) return {};
    note_number(key);
    if (!big) return add(page_number * page_bytes_ + data, length);
    const auto first = little_endian<std::uint64_t>(page, data);
    if (first >= pack_.size() / page_bytes_) return pack_.corrupt("a value of this LMDB lies outside of the file");
    return add(first * page_bytes_ + kPageHeader, length);
  }

  io::Status add(std::uint64_t offset, std::uint64_t length) {
    if (const io::Status added = map_.add(offset, length); !added) return pack_.corrupt(added.error().context);
    return {};
  }

  void note_number(std::string_view key) {
    if (numbers_.size() != map_.count()) return;  // a key before this one was no number
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
    if (error == std::errc() && end == key.data() + key.size()) numbers_.push_back(number);
  }

  [[nodiscard]] bool is_permutation() const {
    std::vector<bool> seen(numbers_.size());
    return std::all_of(numbers_.begin(), numbers_.end(), [&seen](std::uint32_t number) -> bool {
      if (number >= seen.size() || seen[number]) return false;
      seen[number] = true;
      return true;
    });
  }

  const PackFile& pack_;
  const std::size_t page_bytes_;
  const std::uint64_t entries_;  // that it says it has
  std::uint64_t pages_left_;
  std::uint64_t values_ = 0;
  RecordMap map_;
  std::vector<std::uint32_t> numbers_;  // the keys, as long as they are numbers
};

}  // namespace

io::Result<RecordMap> map_lmdb(const PackFile& pack) {
  HEADRACE_TRY(first, read_meta(pack, 0));
  HEADRACE_TRY(second, read_meta(pack, first.page_bytes));
  if (second.page_bytes != first.page_bytes) return pack.corrupt("the meta pages of this LMDB contradict each other");
  const Meta& meta = second.transaction > first.transaction ? second : first;
  if (meta.entries > pack.size() / (kNodeHeader + sizeof(std::uint16_t))) {  // a node and its offset each
    return pack.corrupt("this LMDB says another number of values than it has room for");
  }
  Walk walk(pack, meta);
  if (meta.root != kNoPage) HEADRACE_TRY_DO(walk.visit(meta.root, 1));
  return walk.finish();
}

}  // namespace headrace::cache
