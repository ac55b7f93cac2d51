// SPDX-License-Identifier: Apache-2.0
// file:PATH: the samples as a text file lists them, the same in every epoch. One path (relative to the source) or one
// index per line; a file is read as indices when all its lines are numbers. Empty lines are skipped; a byte order mark
// and CR LF are tolerated.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"

namespace headrace::cache {
namespace {

struct Line {
  std::size_t number = 0;  // from 1
  std::string_view text;
};

[[nodiscard]] Result<std::string> read_whole(const std::string& path) {
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) return io::system_error(errno, "open order file " + path);
  std::string content;
  char block[1 << 16];
  while (const std::size_t got = std::fread(block, 1, sizeof(block), file.get())) content.append(block, got);
  if (std::ferror(file.get()) != 0) return io::system_error(errno, "read order file " + path);
  return content;
}

// Calls visit(line) for each line that is not empty, until it returns false.
template <typename Visit>
void for_each_line(std::string_view rest, const Visit& visit) {
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (!text.empty() && !visit(Line{number, text})) return;
  }
}

[[nodiscard]] std::optional<std::uint64_t> as_index(std::string_view text) {
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (end != text.data() + text.size()) return std::nullopt;
  return error == std::errc{} ? index : UINT64_MAX;  // digits only, but beyond 64 bits: an index that is too large
}

[[nodiscard]] bool all_indices(std::string_view content) {
  bool all = true;
  for_each_line(content, [&](Line line) { return all = as_index(line.text).has_value(); });
  return all;
}

[[nodiscard]] tl::unexpected<io::Error> bad_line(const std::string& path, Line line, io::ErrorCode code,
                                                 std::string_view problem) {
  constexpr std::size_t kShown = 200;
  return io::make_error(
      code, fmt::format("order file {}, line {}: '{}' {}", path, line.number, line.text.substr(0, kShown), problem));
}

[[nodiscard]] Result<SampleIndex> sample_of(const std::string& path, Line line, bool is_index,
                                            const OrderInput& input) {
  if (is_index) {
    const std::uint64_t index = *as_index(line.text);
    if (index < input.sample_count) return static_cast<SampleIndex>(index);
    return bad_line(path, line, io::ErrorCode::kInvalidArgument,
                    fmt::format("is not an index of the data set, which has {} samples", input.sample_count));
  }
  if (const std::optional<SampleIndex> found = input.find_sample(line.text)) return *found;
  return bad_line(path, line, io::ErrorCode::kNotFound, "is no sample of the data set");
}

[[nodiscard]] Result<Samples> parse(const std::string& path, std::string_view content, const OrderInput& input) {
  const bool indices = all_indices(content);
  if (!indices && !input.find_sample) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "order file " + path + ": holds paths, but no data set is known");
  }
  Result<Samples> samples;
  for_each_line(content, [&](Line line) {
    Result<SampleIndex> sample = sample_of(path, line, indices, input);
    if (sample) {
      samples->push_back(*sample);
    } else {
      samples = io::forward_error(std::move(sample));
    }
    return samples.has_value();
  });
  return samples;
}

}  // namespace

Result<Samples> read_order_file(const std::string& path, const OrderInput& input) {
  const Result<std::string> content = read_whole(path);
  if (!content) return tl::unexpected(content.error());
  return parse(path, *content, input);
}

OrderResult make_file_order(Parameters& parameters, const OrderInput& input) {
  const std::string path(parameters.whole());
  if (path.empty()) return io::make_error(io::ErrorCode::kInvalidArgument, "order 'file': needs a path, file:PATH");
  Result<Samples> read = read_order_file(path, input);
  if (!read) return io::forward_error(std::move(read));
  const auto samples = std::make_shared<const Samples>(std::move(*read));
  const auto draw = [samples](std::uint64_t /*epoch*/, std::uint64_t count) -> Result<Samples> {
    return Samples(samples->begin(), samples->begin() + static_cast<std::ptrdiff_t>(count));
  };
  return make_sharded_order(parameters.spec(),
                            {.list_length = samples->size(), .draw = draw, .shards = {.total = samples->size()}});
}

}  // namespace headrace::cache
