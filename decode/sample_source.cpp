// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/sample_source.h"

#include <cerrno>
#include <utility>

namespace headrace::decode {
namespace {

class ReaderSource final : public SampleSource {
 public:
  ReaderSource(cache::Reader& reader, const cache::Catalog& catalog) : reader_(reader), catalog_(catalog) {}

  std::optional<RawSample> next() override {
    std::optional<cache::Sample> sample = reader_.next();
    if (!sample) return std::nullopt;
    RawSample raw = {.epoch = sample->epoch,
                     .position = sample->position,
                     .index = sample->index,
                     .label = sample->label,
                     .bytes = {},
                     .pin = {},
                     .plan = {}};
    if (!sample->bytes) {
      raw.bytes = tl::unexpected(std::move(sample->bytes.error()));
      return raw;
    }
    const auto view = std::make_shared<cache::View>(std::move(*sample->bytes));
    raw.bytes = view->bytes();
    raw.served_from = view->served_from();
    raw.pin = view;
    return raw;
  }

  void cancel() override { reader_.cancel(); }
  std::string path(SampleIndex index) const override { return catalog_.path(catalog_.sample_entry(index)); }

 private:
  cache::Reader& reader_;
  const cache::Catalog& catalog_;
};

}  // namespace

io::Error error_of_sample(io::Error error) {
  if (error.code != io::ErrorCode::kTimedOut) return error;
  if (error.os_errno == 0) error.os_errno = ETIMEDOUT;
  error.code = io::ErrorCode::kSystem;
  return error;
}

std::unique_ptr<SampleSource> read_from(cache::Reader& reader, const cache::Catalog& catalog) {
  return std::make_unique<ReaderSource>(reader, catalog);
}

}  // namespace headrace::decode
