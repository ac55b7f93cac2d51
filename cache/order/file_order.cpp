// SPDX-License-Identifier: Apache-2.0
// file:PATH: the samples as a text file lists them, the same in every epoch. One path (relative to the source) or one
// index per line; a file is read as indices when all its lines are numbers. Empty lines are skipped; a byte order mark
// and CR LF are tolerated.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

struct Line {
  std::size_t number = 0;  // from 1
  std::string_view text;
};

// Paths have 4096 bytes at most (PATH_MAX); what has no line end for so long is no list but, say, /dev/zero.
constexpr std::size_t kLineBytesMax = 8192;

// The lines of a file that are not empty, one by one.
class LineReader {
 public:
  LineReader(std::string path, io::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)), buffer_(kBufferBytes) {}
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // nullopt: the end, or a problem(). The text is valid until the next call.
  [[nodiscard]] std::optional<Line> next() {
    if (std::exchange(again_, false)) return last_;
    while (std::optional<std::string_view> text = next_raw()) {
      if (++number_ == 1 && text->starts_with("\xef\xbb\xbf")) text->remove_prefix(3);
      if (text->ends_with('\r')) text->remove_suffix(1);
      if (text->empty()) continue;
      ++lines_;
      return last_ = Line{number_, *text};
    }
    return std::nullopt;
  }
  [[nodiscard]] const std::optional<io::Error>& problem() const { return problem_; }
  // False: lines of a pipe, which are gone. The first one is still there.
  [[nodiscard]] bool start_again() {
    if (lines_ == 1) return again_ = true;
    number_ = begin_ = end_ = 0;
    return ::lseek(fd_.get(), 0, SEEK_SET) == 0;
  }

 private:
  static constexpr std::size_t kBufferBytes = 32 * kLineBytesMax;

  // Without its line end, which the last one may lack.
  std::optional<std::string_view> next_raw() {
    while (!problem_) {
      const std::string_view unread(buffer_.data() + begin_, end_ - begin_);
      const std::size_t line_end = unread.find('\n');
      if (std::min(line_end, unread.size()) > kLineBytesMax) {
        problem_ = io::Error{io::ErrorCode::kInvalidArgument, 0,
                             fmt::format("order file {}, line {}: has more than {} bytes; give a list with one path or "
                                         "index per line",
                                         path_, number_ + 1, kLineBytesMax)};
      } else if (line_end != std::string_view::npos) {
        begin_ += line_end + 1;
        return unread.substr(0, line_end);
      } else if (!read_more()) {
        if (unread.empty() || problem_) return std::nullopt;
        begin_ = end_;
        return unread;
      }
    }
    return std::nullopt;
  }

  // Moves what is unread to the front. False: the end, or a problem.
  bool read_more() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    ssize_t count = 0;
    do {
      count = ::read(fd_.get(), buffer_.data() + end_, buffer_.size() - end_);
    } while (count < 0 && errno == EINTR);
    if (count < 0) problem_ = io::system_error(errno, "read order file " + path_).value();
    if (count <= 0) return false;
    end_ += static_cast<std::size_t>(count);
    return true;
  }

  const std::string path_;
  const io::UniqueFd fd_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of what is unread in the buffer
  std::size_t end_ = 0;
  std::optional<io::Error> problem_;
  std::size_t number_ = 0;
  std::size_t lines_ = 0;  // that were not empty
  Line last_;
  bool again_ = false;
};

// Opening a pipe would wait for its writer, so that is left to whoever wants to wait.
[[nodiscard]] Result<io::UniqueFd> open_list(const std::string& path, bool regular_files_only) {
  const int wait = regular_files_only ? O_NONBLOCK : 0;
  io::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | wait));
  if (!fd.valid()) return io::system_error(errno, "open order file " + path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return io::system_error(errno, "open order file " + path);
  if (regular_files_only && !S_ISREG(status.st_mode)) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "order file " + path + ": is no regular file; write the list into one");
  }
  return fd;
}

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
  Result<io::UniqueFd> fd = open_list(path, input.regular_files_only);
  if (!fd) return io::forward_error(std::move(fd));
  LineReader lines(path, std::move(*fd));
  Result<Samples> samples = read_lines(lines, input);
  if (lines.problem()) return tl::unexpected(*lines.problem());
  if (samples) samples->shrink_to_fit();
  return samples;
}

Result<std::vector<double>> read_number_file(const std::string& path, const OrderInput& input) {
  Result<io::UniqueFd> fd = open_list(path, input.regular_files_only);
  if (!fd) return io::forward_error(std::move(fd));
  LineReader lines(path, std::move(*fd));
  std::vector<double> numbers;
  while (const std::optional<Line> line = lines.next()) {
    const char* const text_end = line->text.data() + line->text.size();
    const auto [end, error] = std::from_chars(line->text.data(), text_end, numbers.emplace_back());
    if (end != text_end || error != std::errc{})
      return bad_line(path, *line, io::ErrorCode::kInvalidArgument, "is no number");
    if (numbers.size() > input.sample_count)
      return bad_line(path, *line, io::ErrorCode::kInvalidArgument, "is one number more than there are samples");
  }
  if (lines.problem()) return tl::unexpected(*lines.problem());
  return numbers;
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
