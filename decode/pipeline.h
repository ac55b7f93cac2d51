// SPDX-License-Identifier: Apache-2.0
// Decoded images in the order of the samples, made by several threads.
//
//   auto source = read_from(*reader, store->catalog());
//   auto pipeline = Pipeline::start(std::move(source), {.threads = 2});
//   while (const DecodedSample* sample = (*pipeline)->next()) {
//     if (sample->status) show(sample->image, sample->label);
//   }
//
// A feeder thread (hr-feed) takes samples from the source; decoder threads (hr-decode-N) decode them into a ring of
// slots; next() hands the slots out in order, whatever finished first. A full ring holds the feeder back, and with it
// the reader and its prefetching.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "headrace/decode/decode_options.h"
#include "headrace/decode/image.h"
#include "headrace/decode/sample_source.h"
#include "headrace/decode/stage_report.h"
#include "headrace/decode/worker_pool.h"

namespace headrace::decode {

struct DecodedSample {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  SampleIndex index = 0;
  std::uint32_t label = 0;
  std::uint64_t encoded_bytes = 0;
  Status status;       // why there is no image; names the file
  std::string damage;  // what was repaired in it; usually empty
  Image image;         // valid if status is good
};

struct PipelineOptions {
  WorkerOptions workers = {};
  // Images decoded ahead of the consumer; each costs its pixels (560 kB for 500x375). 0: four per decoder thread, so
  // that one large image does not make the others wait.
  std::size_t images_ahead = 0;
};

// Thread-safety: next() from one thread; stop() and report() from any thread. Destruction stops and joins.
class Pipeline {
 public:
  // Errors: kInvalidArgument.
  [[nodiscard]] static Result<std::unique_ptr<Pipeline>> start(std::unique_ptr<SampleSource> source,
                                                               const PipelineOptions& options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Valid until the next call. nullptr: all samples were handed out, or stopped.
  [[nodiscard]] const DecodedSample* next();
  // Cancels the source and ends next(), now and later.
  void stop();
  [[nodiscard]] StageReport report() const;

 private:
  Pipeline();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::decode
