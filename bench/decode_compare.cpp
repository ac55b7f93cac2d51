// SPDX-License-Identifier: Apache-2.0
// The sides of bench/compare's decoding rows that are written in C++. The listed files are read into memory first.
//
//   decode_compare FOLDER LIST full --side headrace|plain|both  whole images to RGB; plain: a libjpeg-turbo loop
//   decode_compare FOLDER LIST draw --crops CROPS              writes what RandomResizedCrop draws for each file
//   decode_compare FOLDER LIST rrc --crops CROPS               RandomResizedCrop(224), flip, normalise, float16 NCHW
//   decode_compare FOLDER LIST pipeline [--workers W] [--batch B]   the same through Store, Reader and BatchLoader
//
// LIST has one path relative to FOLDER per line, CROPS a line "left top width height flip" for each. Everything is done
// `--passes N` (3) times; `full` and `rrc` on `--threads T` (1), each with a decoder of its own. Prints one JSON line;
// "xxh3" adds up XXH3 of each file, with `full` of each image's pixels; "pixels" is how many were made. `both` decodes
// each file with the one side and then with the other, on one thread, and prints a line for headrace and one for plain.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <xxhash.h>

#include "headrace/cache/order.h"
#include "headrace/cache/reader.h"
#include "headrace/cache/store.h"
#include "headrace/decode/batch_loader.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/tensor.h"

// After <cstdio>, which it uses without including it.
#include <jpeglib.h>

namespace {

using namespace headrace::decode;  // a program of one file

using File = std::vector<std::byte>;
using Work = std::function<void(std::size_t index, const File& file)>;  // one thread's, with its own decoder

[[noreturn]] void fail(const std::string& reason) {
  std::fprintf(stderr, "decode_compare: %s\n", reason.c_str());
  std::exit(1);
}

File read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream || content.empty()) fail("cannot read " + path);
  const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
  return {bytes, bytes + content.size()};
}

std::vector<File> read_files(const std::string& root, const std::string& list) {
  std::vector<File> files;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) files.push_back(read_file(root + "/" + line));
  if (files.empty()) fail("nothing listed in " + list);
  return files;
}

// The other side: what a program that uses libjpeg-turbo directly does.
class PlainLibjpeg {
 public:
  PlainLibjpeg() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~PlainLibjpeg() { jpeg_destroy_decompress(&info_); }
  PlainLibjpeg(const PlainLibjpeg&) = delete;
  PlainLibjpeg& operator=(const PlainLibjpeg&) = delete;

  std::span<const std::uint8_t> decode(const File& file) {
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    const std::size_t row_bytes = std::size_t{info_.output_width} * 3;
    if (pixels_.size() < row_bytes * info_.output_height) pixels_.resize(row_bytes * info_.output_height);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels_.data() + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return {pixels_.data(), row_bytes * info_.output_height};
  }

 private:
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  std::vector<std::uint8_t> pixels_;
};

class FullDecode {
 public:
  std::span<const std::uint8_t> decode(const File& file) {
    if (auto status = decoder_.decode(file, image_); !status) fail(status.error().message());
    return image_.bytes();
  }

 private:
  // As PIL and libjpeg: the image as it is stored.
  ImageDecoder decoder_ = ImageDecoder(DecodeOptions{.apply_orientation = false});
  Image image_;
};

// DCT scaling stays off, so that both sides resize the same pixels.
class RandomCrop {
 public:
  explicit RandomCrop(const std::string& crops_file) {
    std::ifstream lines(crops_file);
    CropPlan plan = {.target = {224, 224}};
    while (lines >> plan.part.x >> plan.part.y >> plan.part.width >> plan.part.height >> plan.mirror) {
      plans_.push_back(plan);
    }
  }
  [[nodiscard]] std::size_t count() const { return plans_.size(); }

  void transform(std::size_t index, const File& file) {
    if (auto status = transformer_.decode(decoder_, file, plans_[index]); !status) fail(status.error().message());
    transformer_.write(reinterpret_cast<std::byte*>(tensor_.data()));
  }

 private:
  const Transform transform_ = {.geometry = RandomResizedCrop{}, .dct_scaling = false};
  const TensorWriter writer_ = TensorWriter({.type = ElementType::kFloat16, .normalise = kImageNet});
  std::vector<CropPlan> plans_;
  ImageDecoder decoder_ = ImageDecoder(DecodeOptions{.apply_orientation = false});
  SampleTransformer transformer_ = SampleTransformer(transform_, writer_);
  std::vector<std::uint16_t> tensor_ = std::vector<std::uint16_t>(std::size_t{224} * 224 * 3);
};

double process_cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

constexpr std::uint64_t kCropPixels = std::uint64_t{224} * 224;

struct Measured {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pixels = 0;
  std::uint64_t checksum = 0;
};

struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;

  // Since some moment in the past.
  static Cost now() {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
            process_cpu_seconds()};
  }
  Cost& operator+=(const Cost& other) {
    seconds += other.seconds;
    cpu_seconds += other.cpu_seconds;
    return *this;
  }
  Cost operator-(const Cost& earlier) const { return {seconds - earlier.seconds, cpu_seconds - earlier.cpu_seconds}; }
};

void print(const Measured& measured, const Cost& cost) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "{\"samples\": %llu, \"bytes\": %llu, \"pixels\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
      "\"xxh3\": \"%016llx\"}\n",
      number(measured.samples), number(measured.bytes), number(measured.pixels), cost.seconds, cost.cpu_seconds,
      number(measured.checksum));
}

// Runs `work` and prints what it did and took.
void measure(const std::function<Measured()>& work) {
  const Cost before = Cost::now();
  const Measured measured = work();
  print(measured, Cost::now() - before);
}

// One pass over the files, dealt out to a thread for each of `workers`.
void work_through(const std::vector<File>& files, const std::vector<Work>& workers) {
  const auto take_share = [&](std::size_t first) {
    for (std::size_t i = first; i < files.size(); i += workers.size()) workers[first](i, files[i]);
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < workers.size(); ++i) threads.emplace_back(take_share, i);
  take_share(0);
  for (std::thread& thread : threads) thread.join();
}

// `one_pass`: what a pass over the files comes to, but for its samples and bytes.
Measured all_passes(const std::vector<File>& files, unsigned passes, const Measured& one_pass) {
  Measured measured = {
      .samples = files.size() * passes, .pixels = one_pass.pixels * passes, .checksum = one_pass.checksum};
  for (const File& file : files) measured.bytes += file.size() * passes;
  return measured;
}

void measure_work(const std::vector<File>& files, unsigned passes, const Measured& one_pass,
                  const std::vector<Work>& workers) {
  const Measured measured = all_passes(files, passes, one_pass);
  work_through(files, workers);  // warms up
  measure([&] {
    for (unsigned pass = 0; pass < passes; ++pass) work_through(files, workers);
    return measured;
  });
}

std::uint64_t checksum_of(std::span<const std::uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of(const std::vector<File>& files) {
  std::uint64_t sum = 0;
  for (const File& file : files) sum += XXH3_64bits(file.data(), file.size());
  return sum;
}

template <typename Decoder>
Measured check_pass(const std::vector<File>& files, Decoder& decoder) {
  Measured one_pass;
  for (const File& file : files) {
    const std::span<const std::uint8_t> image = decoder.decode(file);
    one_pass.pixels += image.size() / 3;
    one_pass.checksum += checksum_of(image);
  }
  return one_pass;
}

template <typename Decoder>
void run_full(const std::vector<File>& files, unsigned passes, unsigned threads) {
  Decoder checked;
  const Measured one_pass = check_pass(files, checked);
  std::vector<Work> workers;
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back(
        [decoder = std::make_shared<Decoder>()](std::size_t, const File& file) { decoder->decode(file); });
  }
  measure_work(files, passes, one_pass, workers);
}

// The sides take turns at each file, so that what else the machine does meets both; so does who goes first, which finds
// the file's bytes further away.
void run_both(const std::vector<File>& files, unsigned passes) {
  FullDecode headrace;
  PlainLibjpeg plain;
  const Measured headrace_pass = check_pass(files, headrace);
  const Measured plain_pass = check_pass(files, plain);
  Cost headrace_cost;
  Cost plain_cost;
  const auto timed = [](Cost& cost, auto& decoder, const File& file) {
    const Cost before = Cost::now();
    decoder.decode(file);
    cost += Cost::now() - before;
  };
  for (unsigned pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const bool headrace_first = (pass + i) % 2 == 0;
      if (headrace_first) timed(headrace_cost, headrace, files[i]);
      timed(plain_cost, plain, files[i]);
      if (!headrace_first) timed(headrace_cost, headrace, files[i]);
    }
  }
  print(all_passes(files, passes, headrace_pass), headrace_cost);
  print(all_passes(files, passes, plain_pass), plain_cost);
}

void draw_crops(const std::vector<File>& files, const std::string& crops_file) {
  std::ofstream out(crops_file);
  ImageDecoder decoder(DecodeOptions{.apply_orientation = false});
  for (std::uint32_t i = 0; i < files.size(); ++i) {
    const auto size = decoder.open(files[i]);
    if (!size) fail(size.error().message());
    Random random({.seed = 1, .epoch = 0, .sample = i});
    const CropPlan plan = plan_crop({.flip_probability = 0.5}, *size, random);
    out << plan.part.x << ' ' << plan.part.y << ' ' << plan.part.width << ' ' << plan.part.height << ' ' << plan.mirror
        << '\n';
  }
  if (!out.flush()) fail("cannot write " + crops_file);
}

void run_rrc(const std::vector<File>& files, unsigned passes, unsigned threads, const std::string& crops_file) {
  std::vector<Work> workers;
  for (unsigned i = 0; i < threads; ++i) {
    const auto crop = std::make_shared<RandomCrop>(crops_file);
    if (crop->count() != files.size()) fail(crops_file + " does not have a crop for each file");
    workers.emplace_back([crop](std::size_t index, const File& file) { crop->transform(index, file); });
  }
  measure_work(files, passes, {.pixels = files.size() * kCropPixels, .checksum = checksum_of(files)}, workers);
}

// Epoch 0 fills RAM and warms up, `passes` epochs are measured, and one more follows: so the same number of batches is
// under way when the clock starts and when it stops.
class RamPipeline {
 public:
  RamPipeline(const std::string& root, unsigned passes, unsigned workers, std::size_t batch_size) : passes_(passes) {
    namespace cache = headrace::cache;
    auto store = cache::Store::open({.source = root, .ram_bytes = std::uint64_t{4} << 30});
    if (!store) fail(store.error().message());
    store_ = std::move(*store);
    auto order = cache::make_order("torch-distributed:seed=0", {.sample_count = store_->catalog().sample_count()});
    if (!order) fail(order.error().message());
    order_ = std::move(*order);
    auto reader = cache::Reader::open(*store_, *order_, {.epochs = passes + 2});
    if (!reader) fail(reader.error().message());
    reader_ = std::move(*reader);
    auto loader = BatchLoader::start(read_from(*reader_, store_->catalog()),
                                     {.batch_size = batch_size,
                                      .seed = 1,
                                      .transform = {.geometry = RandomResizedCrop{}, .flip_probability = 0.5},
                                      .format = {.type = ElementType::kFloat16, .normalise = kImageNet},
                                      .workers = {.threads = workers}});
    if (!loader) fail(loader.error().message());
    loader_ = std::move(*loader);
  }

  void run(std::uint64_t checksum) {
    const Batch* batch = loader_->next();
    while (batch != nullptr && batch->epoch == 0) batch = loader_->next();
    measure([&] {
      Measured measured = {.checksum = checksum};
      for (; batch != nullptr && batch->epoch <= passes_; batch = loader_->next()) {
        measured.samples += batch->labels.size();
      }
      measured.pixels = measured.samples * kCropPixels;
      measured.bytes = store_->catalog().sample_bytes() * passes_;
      return measured;
    });
    if (!loader_->status()) fail(loader_->status().error().message());
    std::fputs(format(loader_->report()).c_str(), stderr);
  }

 private:
  const unsigned passes_;
  std::unique_ptr<headrace::cache::Store> store_;
  std::unique_ptr<headrace::cache::Order> order_;
  std::unique_ptr<headrace::cache::Reader> reader_;
  std::unique_ptr<BatchLoader> loader_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3 || arguments.size() % 2 == 0)
    fail("usage: FOLDER LIST full|draw|rrc|pipeline [OPTION VALUE]...");
  const auto option = [&](const std::string& name, const std::string& otherwise) {
    for (std::size_t i = 3; i < arguments.size(); i += 2) {
      if (arguments[i] == name) return arguments[i + 1];
    }
    return otherwise;
  };
  const std::string& work = arguments[2];
  const auto passes = static_cast<unsigned>(std::stoul(option("--passes", "3")));
  const auto threads = static_cast<unsigned>(std::stoul(option("--threads", "1")));
  const std::vector<File> files = read_files(arguments[0], arguments[1]);
  const std::string side = option("--side", "headrace");
  if (work == "full" && side == "both") {
    run_both(files, passes);
  } else if (work == "full" && side == "plain") {
    run_full<PlainLibjpeg>(files, passes, threads);
  } else if (work == "full") {
    run_full<FullDecode>(files, passes, threads);
  } else if (work == "draw") {
    draw_crops(files, option("--crops", ""));
  } else if (work == "rrc") {
    run_rrc(files, passes, threads, option("--crops", ""));
  } else if (work == "pipeline") {
    const auto workers = static_cast<unsigned>(std::stoul(option("--workers", "2")));
    RamPipeline(arguments[0], passes, workers, std::stoul(option("--batch", "256"))).run(checksum_of(files));
  } else {
    fail("unknown work " + work);
  }
}
