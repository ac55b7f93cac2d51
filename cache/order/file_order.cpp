// SPDX-License-Identifier: Apache-2.0
// file:PATH: the samples as a text file lists them, the same in every epoch. One path (relative to the source) or one
// index per line; a file is read as indices when all its lines are numbers. Empty lines are skipped; a byte order mark
// and CR LF are tolerated.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"

namespace headrace::cache {
namespace {

struct Line {
  std::size_t number = 0;  // from 1
  std::string_view text;
};

// The lines of a file that are not empty, one by one.
class LineReader {
 public:
  explicit LineReader(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rbe"), std::fclose) {}
  ~LineReader() { std::free(buffer_); }  // getline's
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // nullopt: the end, or failed(). The text is valid until the next call.
  [[nodiscard]] std::optional<Line> next() {
    if (std::exchange(again_, false)) return last_;
    while (true) {
      const ssize_t length = ::getline(&buffer_, &capacity_, file_.get());
      if (length < 0) return std::nullopt;
      std::string_view text(buffer_, static_cast<std::size_t>(length));
      if (++number_ == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
      if (text.ends_with('\n')) text.remove_suffix(1);
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (text.empty()) continue;
      ++lines_;
      return last_ = Line{number_, text};
    }
  }
  [[nodiscard]] bool failed() const { return std::ferror(file_.get()) != 0; }
  // False: lines of a pipe, which are gone. The first one is still there.
  [[nodiscard]] bool start_again() {
    if (lines_ == 1) return again_ = true;
    number_ = 0;
    return std::fseek(file_.get(), 0, SEEK_SET) == 0;
  }

 private:
  const std::string path_;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  char* buffer_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t number_ = 0;
  std::size_t lines_ = 0;  // that were not empty
  Line last_;
  bool again_ = false;
};

[[nodiscard]] std::optional<std::uint64_t> as_index(std::string_view text) {
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (end != text.data() + text.size()) return std::nullopt;
  return error == std::errc{} ? index : UINT64_MAX;  // digits only, but beyond 64 bits: an index that is too large
}

[[nodiscard]] tl::unexpected<io::Error> bad_line(const std::string& path, Line line, io::ErrorCode code,
                                                 std::string_view problem) {
  constexpr std::size_t kShown = 200;
  return io::make_error(
      code, fmt::format("order file {}, line {}: '{}' {}", path, line.number, line.text.substr(0, kShown), problem));
}

// The samples of a file of indices; nullopt at the first line that is no number: then all lines are paths. An index
// beyond the data set is an error only if no such line follows.
[[nodiscard]] Result<std::optional<Samples>> read_indices(LineReader& lines, std::uint64_t sample_count) {
  Samples samples;
  std::optional<io::Error> first_problem;
  while (const std::optional<Line> line = lines.next()) {
    const std::optional<std::uint64_t> index = as_index(line->text);
    if (!index) return std::optional<Samples>();
    if (*index < sample_count) {
      samples.push_back(static_cast<SampleIndex>(*index));
    } else if (!first_problem) {
      first_problem = bad_line(lines.path(), *line, io::ErrorCode::kInvalidArgument,
                               fmt::format("is not an index of the data set, which has {} samples", sample_count))
                          .value();
    }
  }
  if (first_problem) return tl::unexpected(std::move(*first_problem));
  return std::optional(std::move(samples));
}

[[nodiscard]] Result<Samples> read_paths(LineReader& lines, const OrderInput& input) {
  Samples samples;
  while (const std::optional<Line> line = lines.next()) {
    const std::optional<SampleIndex> found = input.find_sample(line->text);
    if (!found) return bad_line(lines.path(), *line, io::ErrorCode::kNotFound, "is no sample of the data set");
    samples.push_back(*found);
  }
  return samples;
}

[[nodiscard]] Result<Samples> read_lines(LineReader& lines, const OrderInput& input) {
  Result<std::optional<Samples>> indices = read_indices(lines, input.sample_count);
  if (!indices) return io::forward_error(std::move(indices));
  if (*indices) return std::move(**indices);
  if (!input.find_sample) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "order file " + lines.path() + ": holds paths, but no data set is known");
  }
  if (!lines.start_again()) return io::system_error(errno, "read order file " + lines.path() + " from its start again");
  return read_paths(lines, input);
}

}  // namespace

Result<Samples> read_order_file(const std::string& path, const OrderInput& input) {
  errno = 0;
  LineReader lines(path);
  if (!lines.is_open()) return io::system_error(errno, "open order file " + path);
  Result<Samples> samples = read_lines(lines, input);
  if (lines.failed()) return io::system_error(errno, "read order file " + path);
  if (samples) samples->shrink_to_fit();
  return samples;
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
