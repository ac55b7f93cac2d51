// SPDX-License-Identifier: Apache-2.0
// The sides of bench/compare's decoding rows that are written in C++. The listed files are read into memory first.
//
//   decode_compare FOLDER LIST full --side headrace|plain|both  whole images to RGB; plain: a libjpeg-turbo loop
//   decode_compare FOLDER LIST draw --crops CROPS              writes what RandomResizedCrop draws for each file
//   decode_compare FOLDER LIST rrc --crops CROPS               RandomResizedCrop(224), flip, normalise, float16 NCHW
//   decode_compare FOLDER LIST rrc-first --crops CROPS         the same, each pass as the first: it makes the indexes
//   decode_compare FOLDER LIST crop --crops CROPS --against skip|full   the crops alone, with an index; and what
//                                                              libjpeg does: skip and crop, or decode all;
//                                                              --index-folder DIR keeps baseline files of progressive
//   decode_compare FOLDER LIST crop-first --crops CROPS        the crops alone as the first of each file, which makes
//                                                              its index; and without any index
//   decode_compare FOLDER LIST pipeline [--workers W] [--batch B]   the same through Store, Reader and BatchLoader
//
// LIST has one path relative to FOLDER per line, CROPS a line "left top width height flip" for each. Everything is done
// `--passes N` (3) times; `full`, `rrc` and `rrc-first` on `--threads T` (1), each with a decoder of its own. Prints
// one JSON line; "xxh3" adds up XXH3 of each file, with `full`, `crop-first` and `crop --against skip` of each image's
// pixels; "pixels" is how many were made. `both`, `crop` and `crop-first` decode each file with the one side and then
// with the other, on one thread, and print a line for headrace and one for the other. The seconds of these crops are
// those on a processor.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
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
#include "headrace/decode/crop_indexes.h"
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

std::vector<CropPlan> read_crops(const std::string& crops_file, std::size_t count) {
  std::vector<CropPlan> plans;
  std::ifstream lines(crops_file);
  CropPlan plan = {.target = {224, 224}};
  while (lines >> plan.part.x >> plan.part.y >> plan.part.width >> plan.part.height >> plan.mirror) {
    plans.push_back(plan);
  }
  if (plans.size() != count) fail(crops_file + " does not have a crop for each file");
  return plans;
}

// The pixels of crops, with an index or as libjpeg skips and crops.
class CropDecode {
 public:
  CropDecode(const std::vector<CropPlan>& plans, CropIndexes* indexes)
      : plans_(plans), decoder_(DecodeOptions{.walk_scans = indexes != nullptr}) {
    if (indexes != nullptr) decoder_.use_indexes(*indexes);
  }

  void decode(std::size_t index, const File& file) {
    const RealBox& part = plans_[index].part;
    const auto whole_number = [](double number) { return static_cast<std::uint32_t>(number); };
    const Box box = {whole_number(part.x), whole_number(part.y), whole_number(part.width), whole_number(part.height)};
    const auto opened = decoder_.open(file);
    if (!opened) fail(opened.error().message());
    if (auto status = decoder_.decode_region(box, 1, image_); !status) fail(status.error().message());
  }
  [[nodiscard]] const Image& image() const { return image_; }

 private:
  const std::vector<CropPlan>& plans_;
  ImageDecoder decoder_;
  Image image_;
};

// DCT scaling stays off, so that both sides resize the same pixels.
class RandomCrop {
 public:
  explicit RandomCrop(const std::vector<CropPlan>& plans) : plans_(plans) {}

  void use_indexes(CropIndexes& indexes) { decoder_.use_indexes(indexes); }
  void transform(std::size_t index, const File& file) {
    if (auto status = transformer_.decode(decoder_, file, plans_[index]); !status) fail(status.error().message());
    transformer_.write(reinterpret_cast<std::byte*>(tensor_.data()));
  }

 private:
  const Transform transform_ = {.geometry = RandomResizedCrop{}, .dct_scaling = false};
  const TensorWriter writer_ = TensorWriter({.type = ElementType::kFloat16, .normalise = kImageNet});
  const std::vector<CropPlan>& plans_;
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
constexpr std::size_t kIndexBytes = std::size_t{1} << 30;  // enough for any data set that fits into memory here

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
                  const std::vector<Work>& workers, const std::function<void()>& before_pass) {
  const Measured measured = all_passes(files, passes, one_pass);
  const auto work_once = [&] {
    before_pass();
    work_through(files, workers);
  };
  work_once();  // warms up
  measure([&] {
    for (unsigned pass = 0; pass < passes; ++pass) work_once();
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
  measure_work(files, passes, one_pass, workers, [] {});
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

// A file that meets an index is not decoded for the first time. Such a crop is counted if the index covers all of it,
// but not if it continues the index; so no file may be there twice.
void check_first(const std::vector<File>& files, const std::deque<CropIndexes>& indexes_of_pass) {
  for (const CropIndexes& indexes : indexes_of_pass) {
    if (indexes.report().count(CropWay::kIndexed) > 0) fail("a first decode met an index");
  }
  std::set<std::uint64_t> contents;
  for (const File& file : files) contents.insert(XXH3_64bits(file.data(), file.size()));
  if (contents.size() < files.size()) fail("two files are the same: the second decode is not the first");
}

// The pass that warms up makes the indexes for all; with `first`, each pass begins without any and makes its own. They
// are kept until the end, because freeing them is no part of a decode.
void run_rrc(const std::vector<File>& files, unsigned passes, unsigned threads, const std::vector<CropPlan>& plans,
             bool first) {
  std::deque<CropIndexes> indexes_of_pass;
  std::vector<std::shared_ptr<RandomCrop>> crops;
  std::vector<Work> workers;
  for (unsigned i = 0; i < threads; ++i) {
    const auto crop = crops.emplace_back(std::make_shared<RandomCrop>(plans));
    workers.emplace_back([crop](std::size_t index, const File& file) { crop->transform(index, file); });
  }
  const auto begin_pass = [&] {
    if (!first && !indexes_of_pass.empty()) return;
    CropIndexes& indexes = indexes_of_pass.emplace_back(kIndexBytes);
    for (const auto& crop : crops) crop->use_indexes(indexes);
  };
  const Measured one_pass = {.pixels = files.size() * kCropPixels, .checksum = checksum_of(files)};
  measure_work(files, passes, one_pass, workers, begin_pass);
  if (first) check_first(files, indexes_of_pass);
}

std::uint64_t checksum_of_rows(const Image& image) {
  std::uint64_t sum = 0;
  for (std::uint32_t y = 0; y < image.size().height; ++y) sum += XXH3_64bits(image.row(y), image.row_bytes());
  return sum;
}

// Of the processor, which other programs on the machine change less than the clock's.
double thread_cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

enum class CropRow { kAgainstSkip, kAgainstFull, kFirst };

// Which side goes first changes, as in run_both(). With kFirst, each pass begins without any index.
void run_crops(const std::vector<File>& files, unsigned passes, const std::vector<CropPlan>& plans, CropRow row,
               CropIndexFolder* folder) {
  const bool against_full = row == CropRow::kAgainstFull;
  CropIndexes indexes(kIndexBytes, folder);
  CropDecode indexed(plans, &indexes);
  CropDecode skipping(plans, nullptr);
  PlainLibjpeg plain;
  Measured headrace_pass = {.checksum = against_full ? checksum_of(files) : 0};
  Measured other_pass = headrace_pass;
  for (std::size_t i = 0; i < files.size(); ++i) {
    indexed.decode(i, files[i]);  // makes the index
    indexed.decode(i, files[i]);
    headrace_pass.pixels += indexed.image().size().pixels();
    if (!against_full) headrace_pass.checksum += checksum_of_rows(indexed.image());
    skipping.decode(i, files[i]);
    other_pass.pixels += against_full ? plain.decode(files[i]).size() / 3 : skipping.image().size().pixels();
    if (!against_full) other_pass.checksum += checksum_of_rows(skipping.image());
  }
  double headrace_seconds = 0;
  double other_seconds = 0;
  std::optional<CropIndexes> indexes_of_pass;
  std::optional<CropDecode> first;
  const auto timed = [&](std::size_t i, bool headrace) {
    const double before = thread_cpu_seconds();
    if (headrace) {
      (first ? *first : indexed).decode(i, files[i]);
    } else if (against_full) {
      plain.decode(files[i]);
    } else {
      skipping.decode(i, files[i]);
    }
    (headrace ? headrace_seconds : other_seconds) += thread_cpu_seconds() - before;
  };
  for (unsigned pass = 0; pass < passes; ++pass) {
    if (row == CropRow::kFirst) {
      first.reset();
      first.emplace(plans, &indexes_of_pass.emplace(kIndexBytes));
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      const bool headrace_first = (pass + i) % 2 == 0;
      timed(i, headrace_first);
      timed(i, !headrace_first);
    }
  }
  print(all_passes(files, passes, headrace_pass), {headrace_seconds, headrace_seconds});
  print(all_passes(files, passes, other_pass), {other_seconds, other_seconds});
  const CropReport report = indexes.report();
  std::uint64_t bytes = 0;
  for (const File& file : files) bytes += file.size();
  std::fprintf(stderr, "%llu of %zu files have an index; %.2f %% of their bytes\n",
               static_cast<unsigned long long>(report.files), files.size(),
               100 * static_cast<double>(report.bytes) / static_cast<double>(bytes));
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
    fail("usage: FOLDER LIST full|draw|rrc|rrc-first|crop|pipeline [OPTION VALUE]...");
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
  } else if (work == "rrc" || work == "rrc-first") {
    run_rrc(files, passes, threads, read_crops(option("--crops", ""), files.size()), work == "rrc-first");
  } else if (work == "crop" || work == "crop-first") {
    const CropRow row = work == "crop-first"                    ? CropRow::kFirst
                        : option("--against", "skip") == "full" ? CropRow::kAgainstFull
                                                                : CropRow::kAgainstSkip;
    const std::string folder = option("--index-folder", "");
    auto opened =
        folder.empty() ? headrace::io::Result<std::unique_ptr<CropIndexFolder>>() : CropIndexFolder::open(folder);
    if (!opened) fail(opened.error().message());
    run_crops(files, passes, read_crops(option("--crops", ""), files.size()), row, opened->get());
  } else if (work == "pipeline") {
    const auto workers = static_cast<unsigned>(std::stoul(option("--workers", "2")));
    RamPipeline(arguments[0], passes, workers, std::stoul(option("--batch", "256"))).run(checksum_of(files));
  } else {
    fail("unknown work " + work);
  }
}
