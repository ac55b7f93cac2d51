// SPDX-License-Identifier: Apache-2.0
// The weights follow PIL (libImaging/Resample.c, precompute_coeffs): the filter's support grows with the reduction, its
// centre is the centre of the output pixel, and the weights that fall on existing pixels are normalised to 1.
#include "headrace/decode/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "headrace/decode/pixel_kernels.h"

namespace headrace::decode {
namespace {

double triangle(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

// R. Keys, Cubic Convolution Interpolation for Digital Image Processing (1981), equation 15.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// Rounds so that the sum is exactly `one`: what rounding leaves over goes to the largest weight, where it shows least.
void round_weights(const std::vector<double>& exact, int one, std::int16_t* out) {
  constexpr int kLargest = std::numeric_limits<std::int16_t>::max();
  int left_over = one;
  std::size_t largest = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    out[k] = static_cast<std::int16_t>(std::min<long>(kLargest, std::lround(exact[k] * one)));
    left_over -= out[k];
    if (out[k] > out[largest]) largest = k;
  }
  out[largest] = static_cast<std::int16_t>(std::min(kLargest, out[largest] + left_over));
}

}  // namespace

void AxisWeights::compute(const AxisSpec& axis, int one) {
  const std::uint32_t input_count = axis.input_count;
  const double scale = axis.extent / axis.output_count;
  const double width = axis.antialias ? std::max(scale, 1.0) : 1.0;  // of the filter
  const double support = width * reach_of(axis.filter);
  double (*const weigh)(double) = axis.filter == Filter::kBicubic ? cubic : triangle;
  taps = std::min(static_cast<std::uint32_t>(std::ceil(2 * support)), input_count);
  first.resize(axis.output_count);
  weights.assign(std::size_t{axis.output_count} * taps, 0);
  for (std::uint32_t i = 0; i < axis.output_count; ++i) {
    double center = axis.begin + (i + 0.5) * scale;
    // Beyond the centre of the outermost pixel there is only that pixel.
    if (axis.filter == Filter::kBilinear) center = std::clamp(center, 0.5, input_count - 0.5);
    // Pixels whose centre lies within the support.
    const auto low = static_cast<std::uint32_t>(std::max(0.0, std::floor(center - support + 0.5)));
    const auto high =
        std::min({static_cast<std::uint32_t>(std::ceil(center + support - 0.5)), low + taps, input_count});
    exact_.clear();
    for (std::uint32_t k = low; k < high; ++k) exact_.push_back(weigh((k + 0.5 - center) / width));
    const double sum = std::accumulate(exact_.begin(), exact_.end(), 0.0);
    for (double& weight : exact_) weight /= sum;
    first[i] = std::min(low, input_count - taps);  // early enough that all taps exist
    round_weights(exact_, one, &weights[std::size_t{i} * taps + (low - first[i])]);
  }
}

void Resizer::expand_columns(bool mirror) {
  const std::size_t count = columns_.first.size();
  const std::size_t groups = (columns_.taps + 3) / 4;
  offsets_.resize(count);
  pairs_.assign(count * groups * 16, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = mirror ? count - 1 - i : i;
    offsets_[i] = columns_.first[from] * Image::kChannels;
    std::int16_t* pairs = &pairs_[i * groups * 16];
    for (std::size_t tap = 0; tap < columns_.taps; ++tap) {
      for (std::size_t channel = 0; channel < Image::kChannels; ++channel) {
        pairs[tap / 2 * 8 + channel * 2 + tap % 2] = columns_.weights[from * columns_.taps + tap];
      }
    }
  }
}

void Resizer::resize_rows_to(Image& out, const ResizeSpec& spec) {
  out_ = &out;
  spec_ = spec;
}

void Resizer::begin(Size size, std::uint32_t line_width, std::uint32_t first_column) {
  line_bytes_ = std::size_t{line_width} * Image::kChannels;
  first_byte_ = std::size_t{first_column} * Image::kChannels;
  // Zeros behind the lines: what the kernel loads there does not count, but a checker of memory cannot know that.
  strip_.assign(kStripLines * line_bytes_ + Image::kSlackBytes, 0);
  strip_lines_ = 0;
  begin(size);
}

void Resizer::begin(Size size) {
  // Rows beyond those that an output row looks at: so many come between two moves of the window.
  constexpr std::uint32_t kSpareRows = 32;
  const RealBox& part = spec_.part;
  // Where a cubic filter is cut off at the edge of the image, the largest weight may exceed 1.
  row_one_ = spec_.filter == Filter::kBicubic ? kWideRowWeightOne : kRowWeightOne;
  columns_.compute({size.width, part.x, part.width, spec_.target.width, spec_.filter, spec_.antialias},
                   kColumnWeightOne);
  rows_.compute({size.height, part.y, part.height, spec_.target.height, spec_.filter, spec_.antialias}, row_one_);
  expand_columns(spec_.mirror);
  out_->reset(spec_.target);
  first_held_ = rows_.first.front();
  window_rows_ = rows_.taps + kSpareRows;
  narrowed_.resize(window_rows_ * out_->row_bytes() + Image::kSlackBytes);
  rows_in_ = size.height;
  came_ = 0;
  done_ = 0;
}

// The rows that the next output row looks at move to the front of the window.
void Resizer::make_room() {
  const std::size_t row_bytes = out_->row_bytes();
  const std::uint32_t first = rows_.first[done_];
  if (first < came_) {
    std::memmove(narrowed_.data(), narrowed_.data() + (first - first_held_) * row_bytes, (came_ - first) * row_bytes);
  }
  first_held_ = first;
}

void Resizer::take(const std::uint8_t* row) {
  if (row != line() + first_byte_) return add_row(row);
  ++strip_lines_;
  if (strip_lines_ < kStripLines && came_ + strip_lines_ < rows_in_) return;
  for (std::size_t i = 0; i < strip_lines_; ++i) add_row(strip_.data() + i * line_bytes_ + first_byte_);
  strip_lines_ = 0;
}

// The rows of the window follow each other in order: a row's last store spills into the next one.
void Resizer::add_row(const std::uint8_t* row) {
  const bool wanted = done_ < spec_.target.height && came_ >= rows_.first[done_];
  if (!wanted) return void(++came_);
  const std::size_t row_bytes = out_->row_bytes();
  if (came_ - first_held_ >= window_rows_) make_room();
  const ColumnPass pass = {.offsets = offsets_, .pairs = pairs_.data(), .groups = (columns_.taps + 3) / 4};
  resize_columns(pass, row, narrowed_.data() + (came_ - first_held_) * row_bytes);
  ++came_;
  for (; done_ < spec_.target.height && rows_.first[done_] + rows_.taps <= came_; ++done_) {
    const RowPass rows = {{&rows_.weights[std::size_t{done_} * rows_.taps], rows_.taps}, row_bytes, row_one_};
    resize_rows(rows, narrowed_.data() + (rows_.first[done_] - first_held_) * row_bytes, row_bytes, out_->row(done_));
  }
}

void Resizer::resize(const Image& in, const ResizeSpec& spec, Image& out) {
  resize_rows_to(out, spec);
  begin(in.size());
  for (std::uint32_t y = 0; y < in.size().height; ++y) add_row(in.row(y));
}

}  // namespace headrace::decode
