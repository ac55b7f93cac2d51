// SPDX-License-Identifier: Apache-2.0
// A small HDF5 file as the library writes it with libver="earliest", in as few bytes as there can be.
//
//   std::string bytes = hdf5_pack();
//   put<std::uint64_t>(bytes, Hdf5At::kChunkTree + 56, UINT64_MAX);   // where the first chunk is
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cache/put.h"

namespace headrace::test {

struct Hdf5At {
  static constexpr std::size_t kRoot = 96;  // the header of the root group
  static constexpr std::size_t kGroupTree = 136;
  static constexpr std::size_t kHeap = 184;
  static constexpr std::size_t kSymbols = 232;  // four of 40 bytes, of which one counts
  static constexpr std::size_t kDataSet = 400;  // its header, then the messages
  static constexpr std::size_t kDataspace = kDataSet + 24;
  static constexpr std::size_t kLayout = kDataspace + 24 + 8 + 8 + 8;
  static constexpr std::size_t kChunkTree = 504;  // entries of 40 bytes from 24 on
  static constexpr std::size_t kChunks = 688;
};

inline void put_message(std::string& bytes, std::size_t body, std::uint16_t type, std::uint16_t length) {
  put(bytes, body - 8, type);
  put(bytes, body - 6, length);
}

// The data set "rows": ten rows of four bytes, in chunks of three rows that lie one after the other.
inline std::string hdf5_pack() {
  std::string bytes(Hdf5At::kChunks + 48, '\0');
  bytes.replace(0, 8, std::string("\x89HDF\r\n\x1a\n", 8));
  bytes[13] = bytes[14] = 8;  // bytes of an address and of a length
  put<std::uint64_t>(bytes, 64, Hdf5At::kRoot);

  bytes[Hdf5At::kRoot] = 1;
  put<std::uint32_t>(bytes, Hdf5At::kRoot + 8, 24);
  put_message(bytes, Hdf5At::kRoot + 24, 0x11, 16);
  put<std::uint64_t>(bytes, Hdf5At::kRoot + 24, Hdf5At::kGroupTree);
  put<std::uint64_t>(bytes, Hdf5At::kRoot + 32, Hdf5At::kHeap);

  bytes.replace(Hdf5At::kGroupTree, 4, "TREE");
  put<std::uint16_t>(bytes, Hdf5At::kGroupTree + 6, 1);
  put<std::uint64_t>(bytes, Hdf5At::kGroupTree + 32, Hdf5At::kSymbols);
  bytes.replace(Hdf5At::kHeap, 4, "HEAP");
  put<std::uint64_t>(bytes, Hdf5At::kHeap + 8, 16);
  put<std::uint64_t>(bytes, Hdf5At::kHeap + 24, Hdf5At::kHeap + 32);
  bytes.replace(Hdf5At::kHeap + 40, 4, "rows");
  bytes.replace(Hdf5At::kSymbols, 4, "SNOD");
  put<std::uint16_t>(bytes, Hdf5At::kSymbols + 6, 1);
  for (std::size_t symbol = 0; symbol < 4; ++symbol) {
    put<std::uint64_t>(bytes, Hdf5At::kSymbols + 8 + 40 * symbol, 8);
    put<std::uint64_t>(bytes, Hdf5At::kSymbols + 16 + 40 * symbol, Hdf5At::kDataSet);
  }

  bytes[Hdf5At::kDataSet] = 1;
  put<std::uint32_t>(bytes, Hdf5At::kDataSet + 8, 80);
  put_message(bytes, Hdf5At::kDataspace, 0x01, 24);
  bytes[Hdf5At::kDataspace] = 1;
  bytes[Hdf5At::kDataspace + 1] = 2;
  put<std::uint64_t>(bytes, Hdf5At::kDataspace + 8, 10);
  put<std::uint64_t>(bytes, Hdf5At::kDataspace + 16, 4);
  put_message(bytes, Hdf5At::kDataspace + 32, 0x03, 8);  // the type: whole numbers of one byte
  put<std::uint32_t>(bytes, Hdf5At::kDataspace + 36, 1);
  put_message(bytes, Hdf5At::kLayout, 0x08, 24);
  bytes.replace(Hdf5At::kLayout, 3, "\x03\x02\x03");
  put<std::uint64_t>(bytes, Hdf5At::kLayout + 3, Hdf5At::kChunkTree);
  put<std::uint32_t>(bytes, Hdf5At::kLayout + 11, 3);
  put<std::uint32_t>(bytes, Hdf5At::kLayout + 15, 4);
  put<std::uint32_t>(bytes, Hdf5At::kLayout + 19, 1);

  bytes.replace(Hdf5At::kChunkTree, 4, "TREE");
  bytes[Hdf5At::kChunkTree + 4] = 1;
  put<std::uint16_t>(bytes, Hdf5At::kChunkTree + 6, 4);
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    const std::size_t entry = Hdf5At::kChunkTree + 24 + 40 * chunk;
    put<std::uint32_t>(bytes, entry, 12);
    put<std::uint64_t>(bytes, entry + 8, 3 * chunk);
    put<std::uint64_t>(bytes, entry + 32, Hdf5At::kChunks + 12 * chunk);
  }
  return bytes;
}

}  // namespace headrace::test
