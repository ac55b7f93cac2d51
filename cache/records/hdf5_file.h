// SPDX-License-Identifier: Apache-2.0
// What HDF5 files are made of (the HDF5 File Format Specification, version 3): the superblock, the headers of objects
// with their messages, the names in groups of both kinds.
//
//   HEADRACE_TRY(file, Hdf5File::open(pack));
//   HEADRACE_TRY(messages, file.messages(file.root()));
//   HEADRACE_TRY(links, file.links(messages));
//
// Every address is checked against the file, and every chain and tree is bounded: a hostile file gives an error.
// Thread-safety: none; one owner. Ownership: the pack outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/records/pack_file.h"

namespace headrace::cache {

inline constexpr std::uint64_t kNoHdf5Address = UINT64_MAX;

struct Hdf5Message {
  std::uint16_t type = 0;
  std::vector<std::byte> body;
};

struct Hdf5Link {
  std::string name;
  std::uint64_t object = kNoHdf5Address;
};

// A node of a B-tree of version 1: entries of key and child, one after the other.
struct Hdf5Node {
  std::uint8_t level = 0;
  std::size_t entries = 0;
  std::size_t entry_bytes = 0;
  std::vector<std::byte> bytes;

  [[nodiscard]] std::span<const std::byte> entry(std::size_t i) const {
    return std::span(bytes).subspan(i * entry_bytes, entry_bytes);
  }
};

class Hdf5File {
 public:
  // Where the signature may lie, behind what somebody else put in front (MATLAB).
  static constexpr std::string_view kSignature = std::string_view("\x89HDF\r\n\x1a\n", 8);
  static constexpr std::size_t kUserBlockBytes = 512;

  // Errors of all functions: kCorrupt, kUnsupported, those of reading; each names the file.
  [[nodiscard]] static io::Result<Hdf5File> open(const PackFile& pack);

  [[nodiscard]] std::uint64_t root() const { return root_; }
  // Addresses count from here.
  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] io::Status read(std::uint64_t address, std::span<std::byte> bytes) const;
  // Of the object whose header is there.
  [[nodiscard]] io::Result<std::vector<Hdf5Message>> messages(std::uint64_t header) const;
  // What a group with these messages names in this file; nothing for another object.
  [[nodiscard]] io::Result<std::vector<Hdf5Link>> links(const std::vector<Hdf5Message>& messages) const;
  // `type`: 0, groups; 1, chunks. `key_bytes`: of the keys of that tree.
  [[nodiscard]] io::Result<Hdf5Node> node(std::uint64_t address, std::uint8_t type, std::size_t key_bytes) const;

  [[nodiscard]] const PackFile& pack() const { return pack_; }

 private:
  explicit Hdf5File(const PackFile& pack) : pack_(pack) {}
  [[nodiscard]] io::Result<std::vector<Hdf5Link>> symbols(std::span<const std::byte> table) const;
  // The heap of a group's names. Each is there once: `taken` bytes of it belong to names that were read.
  struct Names {
    std::string text;
    std::size_t taken = 0;
  };
  [[nodiscard]] io::Status add_symbols(std::uint64_t node, Names& names, std::vector<Hdf5Link>& links) const;

  const PackFile& pack_;
  std::uint64_t base_ = 0;
  std::uint64_t root_ = kNoHdf5Address;
  mutable std::uint64_t read_bytes_ = 0;  // so far, of the index
};

}  // namespace headrace::cache
