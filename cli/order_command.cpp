// SPDX-License-Identifier: Apache-2.0
// headrace order: prints who is read when.
#include <algorithm>
#include <cstdio>

#include <fmt/core.h>
#include <fmt/format.h>

#include "headrace/cli/commands.h"
#include "headrace/cli/data_set.h"

namespace headrace::cli {
namespace {

// Written in pieces: an epoch of ten million paths would take a gigabyte as one string.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

class PieceWriter {
 public:
  ~PieceWriter() { flush(); }
  template <typename Value>
  void line(const Value& value) {
    fmt::format_to(std::back_inserter(piece_), "{}\n", value);
    if (piece_.size() >= kPieceBytes) flush();
  }

 private:
  void flush() {
    std::fwrite(piece_.data(), 1, piece_.size(), stdout);
    piece_.clear();
  }
  fmt::memory_buffer piece_;
};

}  // namespace

io::Status run_order(const OrderArguments& arguments) {
  if (arguments.print != "index" && arguments.print != "path") {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("--print '{}' is unknown; write index or path", arguments.print));
  }
  io::Result<Source> source = open_source(arguments.source);
  if (!source) return io::forward_error(std::move(source));
  io::Result<cache::CatalogOptions> options = make_catalog_options(arguments.cache);
  if (!options) return io::forward_error(std::move(options));
  const io::Result<cache::Catalog> catalog = cache::Catalog::scan_fd(source->directory.get(), *options);
  if (!catalog) return tl::unexpected(catalog.error());
  io::Result<std::unique_ptr<cache::Order>> order = open_order(arguments.order, *catalog);
  if (!order) return io::forward_error(std::move(order));
  const io::Result<std::vector<cache::SampleIndex>> samples = (*order)->prefix(arguments.epoch, arguments.count);
  if (!samples) return tl::unexpected(samples.error());

  PieceWriter writer;
  for (const cache::SampleIndex sample : *samples) {
    if (arguments.print == "index") {
      writer.line(sample);
    } else {
      writer.line(catalog->path(catalog->sample_entry(sample)));
    }
  }
  return {};
}

}  // namespace headrace::cli
