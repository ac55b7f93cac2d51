// SPDX-License-Identifier: Apache-2.0
// A user's program: opens a data set and draws an order. Links every layer.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/fuse/channel.h"
#include "headrace/io/buffer.h"

int main(int, char** argv) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(argv[1]) / "class";
  fs::create_directories(folder);
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg"}) std::ofstream(folder / name) << name;

  const auto catalog = headrace::cache::Catalog::scan(argv[1], {});
  if (!catalog) return 1;
  const auto order = headrace::cache::make_order("torch-distributed:seed=0", {.sample_count = catalog->sample_count()});
  if (!order) return 1;
  const auto epoch = (*order)->epoch(0);
  std::printf("%zu samples in order\n", epoch->size());
  return epoch->size() == 3 ? 0 : 1;
}
