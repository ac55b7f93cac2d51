// SPDX-License-Identifier: Apache-2.0
// From files on disk through store, reader and decoder to batches.
#include <doctest/doctest.h>

#include "headrace/cache/reader.h"
#include "headrace/decode/batch_loader.h"

#include "decode/jpeg_files.h"
#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace headrace::decode::reader_source_test {
namespace {

using Batches = std::vector<std::vector<std::byte>>;

class DataSet {
 public:
  DataSet() {
    for (unsigned i = 0; i < 22; ++i) {
      const test::Bytes file = test::make_jpeg({.size = {50 + i, 70 - i}, .seed = i});
      folder_.write("class" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", test::as_text(file));
    }
  }

  // Two epochs of batches, or what is left of them from a position in the first one.
  Batches load(std::uint64_t ram_bytes, unsigned threads, StageReport* report = nullptr) const {
    return load({.source = folder_.path(), .ram_bytes = ram_bytes}, threads, report);
  }
  Batches resume(std::uint64_t position) const {
    return load({.source = folder_.path(), .ram_bytes = 1 << 30}, 2, nullptr, position);
  }
  Batches load_with_faults(const test::FaultOptions& faults) const {
    return load({.source = folder_.path(),
                 .make_source_engine = [faults]() -> io::Result<std::unique_ptr<io::Engine>> {
                   auto engine = io::open_engine({});
                   if (!engine) return engine;
                   return std::unique_ptr<io::Engine>(test::open_fault_engine(std::move(*engine), faults));
                 }},
                2, nullptr);
  }

 private:
  static Batches load(const cache::StoreOptions& options, unsigned threads, StageReport* report,
                      std::uint64_t first_position = 0) {
    auto store = cache::Store::open(options);
    REQUIRE(store);
    auto order = cache::make_order("torch-distributed:seed=3", {.sample_count = 22});
    REQUIRE(order);
    auto reader = cache::Reader::open(**store, **order, {.epochs = 2, .first_position = first_position});
    REQUIRE(reader);
    auto loader = BatchLoader::start(read_from(**reader, (*store)->catalog()),
                                     {.batch_size = 4,
                                      .transform = {.geometry = RandomResizedCrop{.size = {16, 16}}},
                                      .format = {.type = ElementType::kUint8},
                                      .workers = {.threads = threads}});
    REQUIRE(loader);
    Batches batches;
    while (const Batch* batch = (*loader)->next()) {
      batches.emplace_back(batch->data.begin(), batch->data.end());
      for (std::size_t i = 0; i < batch->labels.size(); ++i) {
        const std::string path = (*store)->catalog().path((*store)->catalog().sample_entry(batch->indices[i]));
        CHECK(path.starts_with("class" + std::to_string(batch->labels[i]) + "/"));
      }
    }
    CHECK((*loader)->status());
    if (report != nullptr) *report = (*loader)->report();
    return batches;
  }

  test::TempDir folder_;
};

TEST_CASE("batches are the same bytes with and without a cache, with one thread and with eight") {
  const DataSet data;
  StageReport report;
  const Batches cached = data.load(1 << 30, 1, &report);
  CHECK(cached.size() == 12);
  CHECK(report.samples == 44);
  CHECK(cached == data.load(1 << 30, 8));
  CHECK(cached == data.load(0, 1));
  CHECK(cached == data.load(0, 8));
}

TEST_CASE("a reader that starts in the middle of an epoch resumes with the same batches") {
  const DataSet data;
  const Batches all = data.load(1 << 30, 1);
  for (const std::ptrdiff_t done : {1, 3, 5}) {
    CHECK(data.resume(static_cast<std::uint64_t>(done) * 4) == Batches(all.begin() + done, all.end()));
  }
}

TEST_CASE("a source that delays, reorders and fails now and then gives the same batches") {
  const DataSet data;
  // One in 50: that one read fails three times in a row is one in 125 000.
  const test::FaultOptions faults = {.seed = 5, .error_one_in = 50, .delay_one_in = 3, .reorder = true};
  CHECK(data.load_with_faults(faults) == data.load(1 << 30, 1));
}

}  // namespace
}  // namespace headrace::decode::reader_source_test
