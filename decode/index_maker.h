// SPDX-License-Identifier: Apache-2.0
// Makes the indexes of JPEGs (crop_indexes.h) before the training whose crops they speed up.
//
//   HEADRACE_TRY(folder, own_crop_index_folder());
//   HEADRACE_TRY(maker, IndexMaker::start(read_from(*reader, store->catalog()), {.folder = folder}));
//   while (const IndexedSample* sample = maker->next()) count(sample->way);
//
// The threads are those of Pipeline (pipeline.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/sample_source.h"

namespace headrace::decode {

struct IndexedSample {
  SampleIndex index = 0;
  std::uint64_t encoded_bytes = 0;
  Status status;                      // why it could not be read, or its header not decoded; names the file
  CropWay way = CropWay::kUnchecked;  // if status is good; an image of another format is kUnsuited
};

struct IndexMakerOptions {
  std::filesystem::path folder;  // crop_index_folder.h
  unsigned threads = 0;          // 0: as many as this process may use at once (usable_cores.h)
};

// Thread-safety: next() from one thread; stop() from any thread. Destruction stops and joins.
class IndexMaker {
 public:
  // Errors: those of CropIndexFolder::open(); kUnsupported: index_support() says why.
  [[nodiscard]] static Result<std::unique_ptr<IndexMaker>> start(std::unique_ptr<SampleSource> source,
                                                                 const IndexMakerOptions& options);
  ~IndexMaker();
  IndexMaker(const IndexMaker&) = delete;
  IndexMaker& operator=(const IndexMaker&) = delete;

  // In the order of the source; valid until the next call. nullptr: all samples were handed out, or stopped.
  [[nodiscard]] const IndexedSample* next();
  // Cancels the source and ends next(), now and later.
  void stop();

 private:
  IndexMaker();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::decode
