// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/index_maker.h"

#include <utility>
#include <vector>

#include "headrace/decode/internal/decode_line.h"
#include "headrace/decode/usable_cores.h"

namespace headrace::decode {
namespace {

// So that one large file does not make the others wait.
constexpr std::size_t kRowsPerThread = 4;

}  // namespace

// One row a group: how it went lies at the group's place.
struct IndexMaker::Impl final : RowDecoder {
  Impl(std::unique_ptr<SampleSource> source, std::unique_ptr<CropIndexFolder> index_folder, unsigned threads)
      : folder(std::move(index_folder)),
        indexes(0, folder.get()),
        ways(kRowsPerThread * threads),
        line(
            std::move(source),
            {.workers = {.threads = threads, .crop_index_bytes = 0}, .groups = ways.size(), .queued_rows = ways.size()},
            *this) {}

  bool begin_group(RowGroup& group) override {
    group.target_rows = 1;
    return true;
  }

  Status decode_row(Worker& worker, RowGroup& group, std::size_t number) override {
    const StageCounters::Timer timer(line.counters().decode_ns);
    worker.decoder.use_indexes(indexes);
    HEADRACE_TRY(way, worker.decoder.make_index(*group.rows[number].raw.bytes));
    ways[line.place_of(group)] = way;
    return {};
  }

  void handle_bad_row(const RowGroup&, std::size_t) override {}  // next() hands it out with its status

  const std::unique_ptr<CropIndexFolder> folder;
  CropIndexes indexes;  // what the folder does not take is of no use to anybody: no memory
  std::vector<CropWay> ways;
  IndexedSample sample;
  bool holds_front = false;  // the consumer has a sample that it has not given back
  DecodeLine line;
};

IndexMaker::IndexMaker() = default;
IndexMaker::~IndexMaker() = default;

Result<std::unique_ptr<IndexMaker>> IndexMaker::start(std::unique_ptr<SampleSource> source,
                                                      const IndexMakerOptions& options) {
  if (index_support() != IndexSupport::kWorks) {
    return io::make_error(io::ErrorCode::kUnsupported,
                          "indexes of JPEGs cannot be made with this libjpeg; headrace doctor says why");
  }
  HEADRACE_TRY(folder, CropIndexFolder::open(options.folder));
  const unsigned threads = options.threads > 0 ? options.threads : usable_cores();
  std::unique_ptr<IndexMaker> maker(new IndexMaker);
  maker->impl_ = std::make_unique<Impl>(std::move(source), std::move(folder), threads);
  maker->impl_->line.start();
  return maker;
}

const IndexedSample* IndexMaker::next() {
  Impl& impl = *impl_;
  if (std::exchange(impl.holds_front, false)) impl.line.release();
  RowGroup* group = impl.line.front();
  if (group == nullptr) return nullptr;
  impl.holds_front = true;
  Row& row = group->rows.front();
  impl.sample = {.index = row.raw.index,
                 .encoded_bytes = row.raw.bytes ? row.raw.bytes->size() : 0,
                 .status = std::move(row.status),
                 .way = impl.ways[impl.line.place_of(*group)]};
  return &impl.sample;
}

void IndexMaker::stop() {
  impl_->line.stop();
}

}  // namespace headrace::decode
