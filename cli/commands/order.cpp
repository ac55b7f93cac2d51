// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/order.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "headrace/cache/listing.h"
#include "headrace/cache/order_families.h"
#include "headrace/cli/daemon/order_telling.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/json.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

// Writes in pieces: an epoch of ten million paths would take a gigabyte as one string.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// Throws std::system_error where it cannot write, as fmt::print() does: what is larger than stdio's buffer goes past
// it, and the last fflush() would know nothing of it.
class PieceWriter {
 public:
  explicit PieceWriter(char end = '\n') : end_(end) {}
  template <typename Value>
  void line(const Value& value) {
    fmt::format_to(std::back_inserter(piece_), "{}{}", value, end_);
    if (piece_.size() >= kPieceBytes) flush();
  }
  // Once, after the last line.
  void flush() {
    if (std::fwrite(piece_.data(), 1, piece_.size(), stdout) < piece_.size())
      throw std::system_error(errno, std::system_category(), "write to standard output");
    piece_.clear();
  }

 private:
  const char end_;
  fmt::memory_buffer piece_;
};

io::Result<std::vector<cache::SampleIndex>> read_numbers(std::istream& lines, const std::string& file) {
  std::vector<cache::SampleIndex> numbers;
  std::string line;
  while (std::getline(lines, line)) {
    cache::SampleIndex number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error != std::errc() || end != line.data() + line.size()) {
      return io::make_error(io::ErrorCode::kInvalidArgument,
                            fmt::format("{}, line {}: '{}' is no sample number; headrace order number lists them", file,
                                        numbers.size() + 1, io::printable(line.substr(0, 80))));
    }
    numbers.push_back(number);
  }
  if (!lines.eof()) return io::system_error(errno, "read " + file);
  return numbers;
}

io::Result<std::vector<cache::SampleIndex>> read_numbers(const std::filesystem::path& file) {
  if (file == "-") return read_numbers(std::cin, "standard input");
  std::ifstream lines(file);
  if (!lines) return io::system_error(errno, "open " + file.string());
  return read_numbers(lines, file.string());
}

void print_families() {
  for (const cache::OrderFamily& family : cache::order_families()) {
    fmt::print("{:<18} {}\n  {:<16} {}\n", family.name, family.drawn_by, "for example", family.example);
    if (!family.parameters.empty()) fmt::print("  {:<16} {}\n", "parameters", fmt::join(family.parameters, ", "));
  }
}

io::Status print_records(const OrderArguments& arguments) {
  HEADRACE_TRY(data, open_data_set(arguments.source, arguments.cache, arguments.order, arguments.records));
  HEADRACE_TRY(numbers, data.order->prefix(arguments.epoch, arguments.count));
  std::vector<std::string> names;
  for (const cache::Pack& pack : data.records->packs()) {
    const std::string path = data.catalog.path(pack.entry);
    names.push_back(::isatty(STDOUT_FILENO) != 0 ? io::printable(path) : path);
  }
  PieceWriter writer;
  for (const cache::SampleIndex record : numbers) {
    if (arguments.print == "index") {
      writer.line(record);
    } else {
      const cache::RecordExtent extent = data.records->extent(record);
      writer.line(fmt::format("{}\t{}\t{}", names[data.records->place(record).pack], extent.offset, extent.length));
    }
  }
  writer.flush();
  return {};
}

}  // namespace

io::Status run_order(const OrderArguments& arguments) {
  if (arguments.list) {
    print_families();
    return {};
  }
  if (arguments.source.empty() || arguments.order.empty()) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "order needs SOURCE and --order SPEC; see headrace order --help");
  }
  if (arguments.print != "index" && arguments.print != "path") {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("--print '{}' is unknown; write index or path", arguments.print));
  }
  if (!arguments.check.empty()) {
    if (arguments.records.empty()) return check_order(arguments);
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "--check compares opened files, and --records is about parts of them; name one of both");
  }
  if (!arguments.records.empty()) return print_records(arguments);
  HEADRACE_TRY(data, open_data_set(arguments.source, arguments.cache, arguments.order));
  HEADRACE_TRY(samples, data.order->prefix(arguments.epoch, arguments.count));

  HEADRACE_TRY(options, make_catalog_options(arguments.cache));
  HEADRACE_TRY(paths, cache::loader_paths(data.catalog, options));
  // As ls does: a pipe gets the names as they are, a terminal what it can show.
  const bool on_terminal = ::isatty(STDOUT_FILENO) != 0;
  PieceWriter writer;
  for (const cache::SampleIndex sample : samples) {
    if (arguments.print == "index") {
      writer.line(sample);
    } else {
      const std::string path = cache::loader_path(data.catalog, paths, sample);
      writer.line(on_terminal ? io::printable(path) : path);
    }
  }
  writer.flush();
  return {};
}

io::Status run_order_show(const OrderShowArguments& arguments) {
  HEADRACE_TRY(state, call_daemon(arguments.mount_point, "order", json::object()));
  if (arguments.json) {
    print_json(state);
    return {};
  }
  const std::string order = text_of(state, "order");
  fmt::print("{} epoch {} position {}\n", order.empty() ? "unknown" : order, number_of(state, "epoch"),
             number_of(state, "position"));
  if (const std::string set = text_of(state, "set"); !set.empty()) fmt::print("reading: {}\n", set);
  if (const std::string spec = text_of(state, "given_up"); !spec.empty()) {
    fmt::print("given up, since the loader read otherwise: {}\n", spec);
  }
  const std::string found_by = text_of(state, "found_by");
  if (found_by.empty()) return {};
  fmt::print("learned: {}; chance of a mistake 1 in 2^{:.0f}\n", found_by, real_of(state, "confidence_bits"));
  return {};
}

io::Status run_order_set(const OrderSetArguments& arguments) {
  json request = {{"specs", json::array()}, {"epoch", arguments.epoch}};
  for (const std::string& order : arguments.orders) request["specs"].push_back(absolute_order_spec(order));
  return call_daemon(arguments.mount_point, "order", request).map([](const json&) {});
}

io::Status run_order_tell(const OrderTellArguments& arguments) {
  HEADRACE_TRY(numbers, read_numbers(arguments.file));
  json request = {{"name", arguments.name},
                  {"total", numbers.size()},
                  {"batch", arguments.batch},
                  {"workers", arguments.workers},
                  {"prefetch_factor", arguments.prefetch_factor},
                  {"rank", arguments.rank},
                  {"ranks", arguments.ranks}};
  std::size_t told = 0;
  do {
    const std::size_t end = std::min(numbers.size(), told + kToldNumbersMax);
    request["offset"] = told;
    request["numbers"] = std::vector(numbers.begin() + static_cast<std::ptrdiff_t>(told),
                                     numbers.begin() + static_cast<std::ptrdiff_t>(end));
    HEADRACE_TRY(reply, call_daemon(arguments.mount_point, "order-tell", request));
    told = end;
  } while (told < numbers.size());
  return {};
}

io::Status run_order_number(const OrderNumberArguments& arguments) {
  PieceWriter writer(arguments.null ? '\0' : '\n');
  const bool on_terminal = ::isatty(STDOUT_FILENO) != 0;
  std::uint64_t first = 0;
  std::uint64_t total = 0;
  do {
    HEADRACE_TRY(reply, call_daemon(arguments.mount_point, "numbering", {{"first", first}}));
    const json& paths = member_of(reply, "paths");
    total = number_of(reply, "total");
    if (first < total && paths.empty()) {
      return io::make_error(io::ErrorCode::kCorrupt, "the daemon's answer makes no sense; is it of another version?");
    }
    for (const json& path : paths) {
      const std::string text = path.is_string() ? path.get<std::string>() : "";
      writer.line(on_terminal ? io::printable(text) : text);
    }
    first += paths.size();
  } while (first < total);
  writer.flush();
  return {};
}

}  // namespace headrace::cli
