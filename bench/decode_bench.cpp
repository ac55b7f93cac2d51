// SPDX-License-Identifier: Apache-2.0
// The steps of decoding one by one, on one thread, on a picture of 500 x 375 unless a name says otherwise.
//
//   decode/jpeg/<what>                   whole, part (300 x 250 in the middle), half (reduce:2), baseline_libjpeg
//   decode/resize/<from>                 to 224 x 224 with antialias: crop (300 x 250), image, large (2000 x 1500)
//   decode/kernel/<columns|rows>/<simd|plain>
//   decode/tensor/<type>/<layout>        224 x 224, ImageNet's normalisation
//   decode/jitter/<step>                 224 x 224
//   decode/sample/<transform>            from JPEG bytes to a float16 NCHW tensor
//   decode/queue/<kind>/threads:<n>      one item through the queue: handover between n pairs of threads
//   decode/ring/slot_ring                one item from feeder to filler to consumer, on one thread
//
// Figures: time per call; items are pixels of the result, or handed-over items.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <queue>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "headrace/decode/color_jitter.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/internal/ordered_ring.h"
#include "headrace/decode/internal/queue.h"
#include "headrace/decode/pixel_kernels.h"
#include "headrace/decode/sample_transformer.h"

// After <cstdio>, which it uses without including it.
#include <jpeglib.h>

namespace {

using namespace headrace::decode;

constexpr Size kPicture = {500, 375};
constexpr Size kTarget = {224, 224};

// Waves, edges and noise: about as many bytes per pixel as a photograph.
Image make_picture(Size size) {
  Image image;
  image.reset(size);
  std::mt19937 random(1);
  for (std::uint32_t y = 0; y < size.height; ++y) {
    for (std::uint32_t i = 0; i < size.width * 3; ++i) {
      const std::uint32_t x = i / 3;
      image.row(y)[i] = static_cast<std::uint8_t>((x * 3 + y) % 101 + (x / 40 + y / 30) % 2 * 90 + random() % 24);
    }
  }
  return image;
}

std::vector<std::byte> make_jpeg(Size size) {
  Image image = make_picture(size);
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = size.width;
  info.image_height = size.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  for (std::uint32_t y = 0; y < size.height; ++y) {
    JSAMPROW row = image.row(y);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  const auto* begin = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> file(begin, begin + bytes);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

void count_pixels(benchmark::State& state, Size size) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(size.pixels()));
}

void decode_part(benchmark::State& state, Box box, std::uint32_t reduce) {
  const std::vector<std::byte> file = make_jpeg(kPicture);
  ImageDecoder decoder({});
  Image image;
  for (auto _ : state) {
    const bool good = decoder.open(file).has_value() && decoder.decode_region(box, reduce, image).has_value();
    if (!good) state.SkipWithError("does not decode");
  }
  count_pixels(state, box.size());
}
BENCHMARK_CAPTURE(decode_part, whole, whole(kPicture), 1)->Name("decode/jpeg/whole");
BENCHMARK_CAPTURE(decode_part, part, Box{100, 60, 300, 250}, 1)->Name("decode/jpeg/part");
BENCHMARK_CAPTURE(decode_part, half, Box{0, 0, 250, 188}, 2)->Name("decode/jpeg/half");

void baseline_libjpeg(benchmark::State& state) {
  const std::vector<std::byte> file = make_jpeg(kPicture);
  Image image;
  image.reset(kPicture);
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  for (auto _ : state) {
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = image.row(info.output_scanline);
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  count_pixels(state, kPicture);
}
BENCHMARK(baseline_libjpeg)->Name("decode/jpeg/baseline_libjpeg");

void resize(benchmark::State& state, Size from) {
  const Image in = make_picture(from);
  const RealBox all = {0, 0, static_cast<double>(from.width), static_cast<double>(from.height)};
  Resizer resizer;
  Image out;
  for (auto _ : state) resizer.resize(in, {.part = all, .target = kTarget}, out);
  count_pixels(state, kTarget);
}
BENCHMARK_CAPTURE(resize, crop, Size{300, 250})->Name("decode/resize/crop");
BENCHMARK_CAPTURE(resize, image, kPicture)->Name("decode/resize/image");
BENCHMARK_CAPTURE(resize, large, Size{2000, 1500})->Name("decode/resize/large");

void columns(benchmark::State& state, decltype(&resize_columns) kernel) {
  const Image in = make_picture({300, 1});
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t i = 0; i < kTarget.width; ++i) offsets.push_back(i * 296 / kTarget.width * 3);
  const std::vector<std::int16_t> pairs(offsets.size() * 16, kColumnWeightOne / 4);
  std::vector<std::uint8_t> out(offsets.size() * 3 + 16);
  for (auto _ : state) {
    kernel({.offsets = offsets, .pairs = pairs.data(), .groups = 1}, in.row(0), out.data());
    benchmark::DoNotOptimize(out.data());
  }
  count_pixels(state, {kTarget.width, 1});
}
BENCHMARK_CAPTURE(columns, simd, resize_columns)->Name("decode/kernel/columns/simd");
BENCHMARK_CAPTURE(columns, plain, resize_columns_plain)->Name("decode/kernel/columns/plain");

void rows(benchmark::State& state, decltype(&resize_rows) kernel) {
  const Image in = make_picture({kTarget.width, 3});
  const std::vector<std::int16_t> weights(3, kRowWeightOne / 3);
  std::vector<std::uint8_t> out(in.row_bytes());
  for (auto _ : state) {
    kernel({.weights = weights, .stride = in.row_bytes()}, in.row(0), in.row_bytes(), out.data());
    benchmark::DoNotOptimize(out.data());
  }
  count_pixels(state, {kTarget.width, 1});
}
BENCHMARK_CAPTURE(rows, simd, resize_rows)->Name("decode/kernel/rows/simd");
BENCHMARK_CAPTURE(rows, plain, resize_rows_plain)->Name("decode/kernel/rows/plain");

void tensor(benchmark::State& state, ElementType type, Layout layout) {
  const Image image = make_picture(kTarget);
  const TensorWriter writer({.type = type, .layout = layout, .normalise = kImageNet});
  std::vector<std::byte> out(writer.sample_bytes(kTarget));
  for (auto _ : state) {
    writer.write(image, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  count_pixels(state, kTarget);
}
BENCHMARK_CAPTURE(tensor, f16, ElementType::kFloat16, Layout::kChannelsFirst)->Name("decode/tensor/float16/nchw");
BENCHMARK_CAPTURE(tensor, f32, ElementType::kFloat32, Layout::kChannelsFirst)->Name("decode/tensor/float32/nchw");
BENCHMARK_CAPTURE(tensor, bf16, ElementType::kBfloat16, Layout::kChannelsFirst)->Name("decode/tensor/bfloat16/nchw");
BENCHMARK_CAPTURE(tensor, f16_last, ElementType::kFloat16, Layout::kChannelsLast)->Name("decode/tensor/float16/nhwc");
BENCHMARK_CAPTURE(tensor, u8, ElementType::kUint8, Layout::kChannelsFirst)->Name("decode/tensor/uint8/nchw");

void jitter(benchmark::State& state, void (*step)(Image&, double)) {
  Image image = make_picture(kTarget);
  for (auto _ : state) step(image, 0.1);
  count_pixels(state, kTarget);
}
BENCHMARK_CAPTURE(jitter, brightness, adjust_brightness)->Name("decode/jitter/brightness");
BENCHMARK_CAPTURE(jitter, contrast, adjust_contrast)->Name("decode/jitter/contrast");
BENCHMARK_CAPTURE(jitter, saturation, adjust_saturation)->Name("decode/jitter/saturation");
BENCHMARK_CAPTURE(jitter, hue, adjust_hue)->Name("decode/jitter/hue");

void sample(benchmark::State& state, const Geometry& geometry) {
  const std::vector<std::byte> file = make_jpeg(kPicture);
  const Transform transform = {.geometry = geometry, .flip_probability = 0.5};
  const TensorWriter writer({.type = ElementType::kFloat16, .normalise = kImageNet});
  SampleTransformer transformer(transform, writer);
  ImageDecoder decoder({});
  std::vector<std::byte> out(writer.sample_bytes(output_size(geometry)));
  std::uint32_t index = 0;
  for (auto _ : state) {
    if (!transformer.decode(decoder, file, RandomKey{.sample = index++})) state.SkipWithError("does not decode");
    transformer.write(out.data());
  }
  count_pixels(state, output_size(geometry));
}
BENCHMARK_CAPTURE(sample, rrc, RandomResizedCrop{})->Name("decode/sample/random_resized_crop");
BENCHMARK_CAPTURE(sample, center, ResizeCenterCrop{})->Name("decode/sample/resize_center_crop");
BENCHMARK_CAPTURE(sample, resize, Resize{})->Name("decode/sample/resize");
BENCHMARK_CAPTURE(sample, pad, PadCrop{})->Name("decode/sample/pad_crop");

// What BoundedQueue is measured against: a deque under a lock, with the same bound.
class LockedQueue {
 public:
  explicit LockedQueue(std::size_t capacity) : capacity_(capacity) {}
  void push(std::uint64_t item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return items_.size() < capacity_; });
    items_.push(item);
    not_empty_.notify_one();
  }
  bool pop(std::uint64_t& item) {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !items_.empty(); });
    item = items_.front();
    items_.pop();
    not_full_.notify_one();
    return true;
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::queue<std::uint64_t> items_;
};

// Even threads push, odd ones pop, as often.
template <typename Queue>
void hand_over(benchmark::State& state) {
  static Queue queue(64);
  std::uint64_t item = 0;
  for (auto _ : state) {
    if (state.thread_index() % 2 == 0) {
      queue.push(item);
    } else {
      queue.pop(item);
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(hand_over<BoundedQueue<std::uint64_t>>)->Name("decode/queue/bounded")->Threads(2)->Threads(4)->UseRealTime();
BENCHMARK(hand_over<LockedQueue>)->Name("decode/queue/baseline_lock")->Threads(2)->Threads(4)->UseRealTime();

void go_round(benchmark::State& state) {
  OrderedRing<std::uint64_t> ring(8);
  for (auto _ : state) {
    ring.complete(*ring.acquire());
    benchmark::DoNotOptimize(ring.front());
    ring.release();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(go_round)->Name("decode/ring/slot_ring");

}  // namespace

BENCHMARK_MAIN();
