// SPDX-License-Identifier: Apache-2.0
// Fills a folder with what fuzzing the readers of packs starts from: write_pack_corpus FOLDER
//
// A sound pack of each format.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/record_map.h"

#include "cache/hdf5_pack.h"
#include "cache/made_packs.h"

namespace {

using namespace headrace::test;  // a program of one file

// As fuzz_record_map.cpp takes it.
std::string input(std::string_view format, const std::string& pack, const std::string& index = "") {
  const auto formats = headrace::cache::record_formats();
  std::string bytes(3, '\0');
  bytes[0] = static_cast<char>(std::ranges::find(formats, format) - formats.begin());
  put(bytes, 1, static_cast<std::uint16_t>(index.size()));
  return bytes + index + pack;
}

std::vector<std::string> inputs() {
  const std::string stream = arrow_message(1, 0, 0) + arrow_message(3, 64, 64) + end_of_stream();
  return {
      input("npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }\n", 60)),
      input("lmdb", lmdb({{"0", "12345"}, {"1", ""}, {"length", "2"}})),
      input("hdf5", hdf5_pack()),
      input("recordio", record_io(), "0\t16\n1\t0\r\n"),
      input("tar", tar_member("././@LongLink", "long.jpg", 'L') + tar_member("a/0.jpg", std::string(600, 'j')) +
                       tar_member("x", "12 size=700\n", 'x') + tar_member("b", "x") + kTarEnd),
      input("arrow", stream),
      input("arrow", std::string("ARROW1\0\0", 8) + stream + "the footer"),
      input("ffcv", beton(3, {{2, 4096, 100}, {0, 5000, 10}, {0, 5010, 20}})),
      input("megatron", std::string(30, 't'), megatron_index(8, 5, 20)),
      input("mds", mds_shard({20, 25, 25, 40}, 40, 3)),
      input("litdata", mds_shard({12, 20}, 20, 1)),
      input("tfrecord", tf_record(5, "12345") + tf_record(0, "") + tf_record(2, "ab")),
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_pack_corpus FOLDER\n", stderr);
    return 2;
  }
  std::size_t count = 0;
  for (const std::string& bytes : inputs()) {
    std::ofstream file(std::filesystem::path(argv[1]) / std::to_string(count++), std::ios::binary);
    if (file << bytes && file.flush()) continue;
    std::fprintf(stderr, "write_pack_corpus: cannot write to %s\n", argv[1]);
    return 1;
  }
  std::printf("%zu files\n", count);
}
