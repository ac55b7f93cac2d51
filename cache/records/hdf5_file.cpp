// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/records/hdf5_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

namespace headrace::cache {
namespace {

constexpr std::size_t kAddressBytes = 8;
// Attributes lie in the header, 64 KiB each at most, and a group's compact links.
constexpr std::uint64_t kHeaderBytesMax = std::uint64_t{16} << 20;
constexpr std::size_t kHeaderBlocksMax = 4096;
constexpr std::size_t kMessagesMax = std::size_t{1} << 17;         // of one object: 65 535 compact links, and some
constexpr std::uint64_t kNamesBytesMax = std::uint64_t{64} << 20;  // of one group: a million long names
constexpr std::size_t kLinksMax = std::size_t{1} << 20;            // of one group
constexpr std::size_t kNodesMax = std::size_t{1} << 16;            // of its tree: 16 links in each at least
constexpr std::uint16_t kLink = 0x06, kLinkInfo = 0x02, kContinuation = 0x10, kSymbolTable = 0x11;
constexpr std::uint8_t kShared = 0x02;
// Of all reads together, each of which counts as so many bytes at least. An index has each byte once, so that four
// times the file is never reached by one that is sound, and 4 GiB is that of 60 million chunks.
constexpr std::uint64_t kReadBytesMin = 64;
constexpr std::uint64_t kReadBytesSpare = std::uint64_t{64} << 10;  // for small files
constexpr std::uint64_t kReadBytesMost = std::uint64_t{4} << 30;

bool is_at(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

struct Block {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

// How the messages of a header lie: version 1, or 2 with or without the order of their creation.
struct Framing {
  std::size_t message_bytes = 8;
  bool is_second = false;
};

// The messages of a block; continuations are added to `blocks`. False: one ends outside of the block.
bool take_messages(std::span<const std::byte> bytes, const Framing& framing, std::vector<Hdf5Message>& messages,
                   std::deque<Block>& blocks) {
  while (bytes.size() >= framing.message_bytes) {
    const std::uint16_t type =
        framing.is_second ? std::to_integer<std::uint8_t>(bytes[0]) : little_endian<std::uint16_t>(bytes, 0);
    const std::size_t length = little_endian<std::uint16_t>(bytes, framing.is_second ? 1 : 2);
    const auto flags = little_endian<std::uint8_t>(bytes, framing.is_second ? 3 : 4);
    bytes = bytes.subspan(framing.message_bytes);
    if (length > bytes.size()) return false;
    const auto body = bytes.first(length);
    bytes = bytes.subspan(length);
    if ((flags & kShared) != 0) continue;  // it lies elsewhere: a type that several share
    if (type == kContinuation) {
      if (length < 2 * kAddressBytes) return false;
      blocks.push_back({little_endian<std::uint64_t>(body, 0), little_endian<std::uint64_t>(body, kAddressBytes)});
    } else {
      messages.push_back({.type = type, .body = {body.begin(), body.end()}});
    }
  }
  return true;
}

// A link message: version, flags, then what the flags say. nullopt: it is cut off. Not a hard link: no address.
std::optional<Hdf5Link> link_of(std::span<const std::byte> body) {
  if (body.size() < 2) return std::nullopt;
  const auto flags = little_endian<std::uint8_t>(body, 1);
  std::size_t at = 2;
  const bool has_type = (flags & 0x08) != 0;
  if (has_type && at >= body.size()) return std::nullopt;
  const bool is_hard = !has_type || body[at] == std::byte{0};
  at += (has_type ? 1 : 0) + ((flags & 0x04) != 0 ? 8 : 0) + ((flags & 0x10) != 0 ? 1 : 0);
  const std::size_t length_bytes = std::size_t{1} << (flags & 0x03);
  if (at + length_bytes > body.size()) return std::nullopt;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<std::uint64_t>(body[at + i]) << (8 * i);
  at += length_bytes;
  if (length > body.size() - at) return std::nullopt;
  const auto name = body.subspan(at, length);
  Hdf5Link link{.name = std::string(reinterpret_cast<const char*>(name.data()), name.size())};
  at += length;
  if (!is_hard) return link;
  if (at + kAddressBytes > body.size()) return std::nullopt;
  link.object = little_endian<std::uint64_t>(body, at);
  return link;
}

}  // namespace

io::Result<Hdf5File> Hdf5File::open(const PackFile& pack) {
  std::array<std::byte, 96> block{};
  Hdf5File file(pack);
  const auto read_at = [&](std::uint64_t at) {
    return pack.read(at, std::span(block).first(std::min<std::uint64_t>(block.size(), pack.size() - at)));
  };
  HEADRACE_TRY_DO(read_at(0));
  if (!is_at(block, kSignature) && pack.size() > kUserBlockBytes) {
    file.base_ = kUserBlockBytes;
    HEADRACE_TRY_DO(read_at(kUserBlockBytes));
  }
  if (!is_at(block, kSignature)) return pack.corrupt("it is no HDF5 file");
  const auto version = std::to_integer<std::uint8_t>(block[8]);
  if (version > 3) return pack.unsupported("an HDF5 file of another version");
  const bool is_second = version >= 2;
  const std::size_t sizes = is_second ? 9 : 13;
  if (block[sizes] != std::byte{kAddressBytes} || block[sizes + 1] != std::byte{kAddressBytes}) {
    return pack.unsupported("an HDF5 file whose addresses are not of 64 bits");
  }
  const std::size_t addresses = is_second ? 12 : 24 + (version == 1 ? 4 : 0);
  if (little_endian<std::uint64_t>(block, addresses) != file.base_) {
    return pack.unsupported("an HDF5 file that begins elsewhere in its file");
  }
  // Version 2: base, extension, end, root. Before: base, free space, end, driver; the name of the root and then itself.
  file.root_ = little_endian<std::uint64_t>(block, addresses + (is_second ? 3 : 5) * kAddressBytes);
  return file;
}

io::Status Hdf5File::read(std::uint64_t address, std::span<std::byte> bytes) const {
  if (address > pack_.size() - base_) return pack_.corrupt("an address of this HDF5 file lies outside of it");
  const std::uint64_t most = std::min(kReadBytesMost, kReadBytesSpare + std::min(pack_.size(), kReadBytesMost) * 4);
  read_bytes_ += std::max<std::uint64_t>(bytes.size(), kReadBytesMin);
  if (read_bytes_ > most) return pack_.corrupt("the index of this HDF5 file is too large, or leads in circles");
  return pack_.read(base_ + address, bytes);
}

io::Result<std::vector<Hdf5Message>> Hdf5File::messages(std::uint64_t header) const {
  std::array<std::byte, 16> head{};
  HEADRACE_TRY_DO(read(header, head));
  Framing framing;
  std::deque<Block> blocks;
  if (is_at(head, "OHDR")) {
    if (head[4] != std::byte{2}) return pack_.unsupported("an HDF5 file of another version");
    const auto flags = std::to_integer<std::uint8_t>(head[5]);
    framing = {.message_bytes = (flags & 0x04) != 0 ? std::size_t{6} : std::size_t{4}, .is_second = true};
    const std::uint64_t times = (flags & 0x20) != 0 ? 16 : 0;
    const std::uint64_t limits = (flags & 0x10) != 0 ? 4 : 0;
    const std::uint64_t length_at = header + 6 + times + limits;
    const std::size_t length_bytes = std::size_t{1} << (flags & 0x03);
    std::array<std::byte, 8> length{};
    HEADRACE_TRY_DO(read(length_at, std::span(length).first(length_bytes)));
    blocks.push_back({length_at + length_bytes, little_endian<std::uint64_t>(length, 0)});
  } else if (head[0] == std::byte{1}) {
    blocks.push_back({header + head.size(), little_endian<std::uint32_t>(head, 8)});
  } else {
    return pack_.corrupt("an object of this HDF5 file has no header");
  }

  std::vector<Hdf5Message> messages;
  std::uint64_t total = 0;
  std::vector<std::byte> bytes;
  for (std::size_t count = 0; !blocks.empty(); ++count) {
    const Block block = blocks.front();
    blocks.pop_front();
    total += std::min(block.length, kHeaderBytesMax);
    if (total >= kHeaderBytesMax || count > kHeaderBlocksMax || messages.size() > kMessagesMax) {
      return pack_.corrupt("the header of an object of this HDF5 file is too long");
    }
    bytes.resize(block.length);
    HEADRACE_TRY_DO(read(block.address, bytes));
    std::span<const std::byte> body = bytes;
    if (framing.is_second && count > 0) {  // a signature in front, a checksum behind
      if (!is_at(body, "OCHK") || body.size() < 8)
        return pack_.corrupt("the header of an object of this HDF5 file is cut off");
      body = body.subspan(4, body.size() - 8);
    }
    if (!take_messages(body, framing, messages, blocks)) {
      return pack_.corrupt("the header of an object of this HDF5 file is cut off");
    }
  }
  return messages;
}

io::Result<std::vector<Hdf5Link>> Hdf5File::links(const std::vector<Hdf5Message>& messages) const {
  std::vector<Hdf5Link> links;
  for (const Hdf5Message& message : messages) {
    if (message.type == kSymbolTable) return symbols(message.body);
    if (message.type == kLinkInfo) {
      const bool has_creation_order = message.body.size() > 1 && (message.body[1] & std::byte{1}) != std::byte{0};
      const std::size_t heap = 2 + (has_creation_order ? 8 : 0);
      if (heap + kAddressBytes > message.body.size()) return pack_.corrupt("a group of this HDF5 file is cut off");
      if (little_endian<std::uint64_t>(message.body, heap) != kNoHdf5Address) {
        return pack_.unsupported(
            "a group of this HDF5 file has too many names for the new layout; write it with "
            "libver='earliest'");
      }
    }
    if (message.type != kLink) continue;
    std::optional<Hdf5Link> link = link_of(message.body);
    if (!link) return pack_.corrupt("a link of this HDF5 file is cut off");
    if (link->object != kNoHdf5Address) links.push_back(std::move(*link));
  }
  return links;
}

io::Result<Hdf5Node> Hdf5File::node(std::uint64_t address, std::uint8_t type, std::size_t key_bytes) const {
  std::array<std::byte, 8 + 2 * kAddressBytes> head{};
  HEADRACE_TRY_DO(read(address, head));
  if (!is_at(head, "TREE") || head[4] != std::byte{type}) {
    return pack_.corrupt("a tree of this HDF5 file makes no sense");
  }
  Hdf5Node node{.level = std::to_integer<std::uint8_t>(head[5]),
                .entries = little_endian<std::uint16_t>(head, 6),
                .entry_bytes = key_bytes + kAddressBytes,
                .bytes = {}};
  node.bytes.resize(node.entries * node.entry_bytes);
  HEADRACE_TRY_DO(read(address + head.size(), node.bytes));
  return node;
}

// A symbol table: its tree and the heap of its names.
io::Result<std::vector<Hdf5Link>> Hdf5File::symbols(std::span<const std::byte> table) const {
  if (table.size() < 2 * kAddressBytes) return pack_.corrupt("a group of this HDF5 file is cut off");
  std::array<std::byte, 32> heap{};
  HEADRACE_TRY_DO(read(little_endian<std::uint64_t>(table, kAddressBytes), heap));
  const auto names_bytes = little_endian<std::uint64_t>(heap, 8);
  if (!is_at(heap, "HEAP")) return pack_.corrupt("the names of a group of this HDF5 file are missing");
  if (names_bytes > kNamesBytesMax) return pack_.unsupported("a group of this HDF5 file has too many names");
  if (names_bytes > pack_.size()) return pack_.corrupt("the names of a group of this HDF5 file are cut off");
  Names names{.text = std::string(names_bytes, '\0')};
  HEADRACE_TRY_DO(read(little_endian<std::uint64_t>(heap, 24), std::as_writable_bytes(std::span(names.text))));

  // Each level is one less than that above: no circle. Each node names a new group of symbols or it is refused.
  std::vector<Hdf5Link> links;
  std::vector<std::pair<std::uint64_t, int>> nodes = {{little_endian<std::uint64_t>(table, 0), -1}};  // and their level
  std::size_t visits = 0;
  while (!nodes.empty()) {
    const auto [address, level] = nodes.back();
    nodes.pop_back();
    HEADRACE_TRY(node, this->node(address, 0, kAddressBytes));
    if ((level >= 0 && node.level != level) || ++visits > kNodesMax || nodes.size() > kNodesMax) {
      return pack_.corrupt("the tree of a group of this HDF5 file makes no sense");
    }
    for (std::size_t i = 0; i < node.entries; ++i) {
      const auto child = little_endian<std::uint64_t>(node.entry(i), kAddressBytes);
      if (node.level > 0) {
        nodes.emplace_back(child, node.level - 1);
      } else {
        HEADRACE_TRY_DO(add_symbols(child, names, links));
      }
    }
  }
  return links;
}

io::Status Hdf5File::add_symbols(std::uint64_t node, Names& names, std::vector<Hdf5Link>& links) const {
  constexpr std::size_t kHead = 8, kSymbol = 40;
  std::array<std::byte, kHead> head{};
  HEADRACE_TRY_DO(read(node, head));
  const std::size_t count = little_endian<std::uint16_t>(head, 6);
  if (!is_at(head, "SNOD")) return pack_.corrupt("the symbols of a group of this HDF5 file are missing");
  if (links.size() + count > kLinksMax) return pack_.unsupported("a group of this HDF5 file has too many names");
  std::vector<std::byte> symbols(count * kSymbol);
  HEADRACE_TRY_DO(read(node + kHead, symbols));
  for (std::size_t at = 0; at < symbols.size(); at += kSymbol) {
    const auto name = little_endian<std::uint64_t>(symbols, at);
    const auto object = little_endian<std::uint64_t>(symbols, at + kAddressBytes);
    if (name >= names.text.size()) return pack_.corrupt("a name of a group of this HDF5 file lies outside of its heap");
    std::string text = names.text.c_str() + name;
    names.taken += text.size() + 1;
    // One more, where the heap ends without a zero.
    if (names.taken > names.text.size() + 1) return pack_.corrupt("names of a group of this HDF5 file overlap");
    if (object != kNoHdf5Address) links.push_back({.name = std::move(text), .object = object});
  }
  return {};
}

}  // namespace headrace::cache
