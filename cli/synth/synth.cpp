// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/synth/synth.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <pthread.h>

#include "headrace/cli/synth/canvas.h"
#include "headrace/cli/synth/jpeg.h"
#include "headrace/cli/synth/plan.h"
#include "headrace/cli/synth/splitmix.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using io::Result;
using io::Status;

// 8 canvases of 11 MB are enough: random places, scales and reflections give cuts that share no block of pixels. A
// small data set needs fewer.
constexpr std::uint32_t kCanvasesMax = 8;
constexpr std::uint32_t kFilesPerCanvas = 20;
// Bounds the memory for photographs: 32 of 20 megapixels take 2 GB. The first ones by name are used.
constexpr std::size_t kPhotosMax = 32;
// A cut may show nothing but sky, which compresses too well. Then other places are tried, up to this number.
constexpr int kPlacesMax = 6;

// Runs `work(i)` for each i below `count` on all cores. Ends early at the first error and returns it.
Status for_each_parallel(std::uint32_t count, const std::function<Status(std::uint32_t)>& work) {
  std::atomic<std::uint32_t> next = 0;
  io::Mutex mutex;
  std::optional<io::Error> failure;
  const auto run = [&] {
    for (std::uint32_t i = next++; i < count; i = next++) {
      Status status = work(i);
      if (status) continue;
      next = count;
      const io::MutexLock lock(mutex);
      if (!failure) failure = std::move(status.error());
    }
  };
  // More than 64 threads gain nothing: the disk that takes the files is the limit by then.
  const std::uint32_t threads = std::clamp(std::thread::hardware_concurrency(), 1U, 64U);
  std::vector<std::thread> workers;
  for (std::uint32_t i = 0; i < std::min(threads, count); ++i) {
    workers.emplace_back(run);
    pthread_setname_np(workers.back().native_handle(), "hr-synth");
  }
  for (std::thread& worker : workers) worker.join();
  if (failure) return tl::unexpected(std::move(*failure));
  return {};
}

Result<std::vector<Picture>> paint_canvases(const SynthOptions& options) {
  const std::uint32_t count = std::clamp(options.files / kFilesPerCanvas, 1U, kCanvasesMax);
  std::vector<Picture> canvases(count);
  HEADRACE_TRY_DO(for_each_parallel(count, [&](std::uint32_t i) -> Status {
    canvases[i] = paint_canvas(options.seed * kCanvasesMax + i);
    return {};
  }));
  return canvases;
}

bool is_jpeg_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".jpg" || extension == ".jpeg" || extension == ".JPG" || extension == ".JPEG";
}

Result<std::vector<fs::path>> find_jpegs(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (is_jpeg_name(entry->path()) && entry->is_regular_file()) files.push_back(entry->path());
  }
  if (error) return io::system_error(error.value(), "list " + folder.string());
  std::sort(files.begin(), files.end());
  files.resize(std::min(files.size(), kPhotosMax));
  return files;
}

Result<std::vector<Picture>> load_photos(const fs::path& folder) {
  HEADRACE_TRY(files, find_jpegs(folder));
  std::vector<Picture> photos(files.size());
  HEADRACE_TRY_DO(for_each_parallel(static_cast<std::uint32_t>(files.size()), [&](std::uint32_t i) -> Status {
    Result<Picture> photo = load_jpeg(files[i]);
    if (photo) {
      photos[i] = std::move(*photo);
    } else {
      io::log_warning("{}", photo.error().message());
    }
    return {};
  }));
  std::erase_if(photos, [](const Picture& photo) { return photo.rgb.empty(); });
  if (photos.empty()) return make_error(ErrorCode::kInvalidArgument, folder.string() + ": no JPEG to cut samples from");
  return photos;
}

// Cuts at a random place of a random canvas, reduced 1 to 3 times if the canvas is large enough.
Picture cut_anywhere(const std::vector<Picture>& canvases, const ImagePlan& plan, SplitMix& random) {
  const Picture& canvas = canvases[random.below(static_cast<std::uint32_t>(canvases.size()))];
  const std::uint32_t step_max = std::min(canvas.width / plan.width, canvas.height / plan.height);
  const std::uint32_t step = 1 + random.below(std::clamp(step_max, 1U, 3U));
  const auto room = [&](std::uint32_t side, std::uint32_t part) { return side > part * step ? side - part * step : 0; };
  return cut(canvas, {.left = random.below(room(canvas.width, plan.width) + 1),
                      .top = random.below(room(canvas.height, plan.height) + 1),
                      .width = plan.width,
                      .height = plan.height,
                      .step = step,
                      .mirror = random.unit() < 0.5});
}

Result<std::vector<std::byte>> make_sample(const std::vector<Picture>& canvases, const ImagePlan& plan,
                                           std::uint64_t seed) {
  constexpr double kCloseEnough = 0.08;
  SplitMix random(seed);
  std::vector<std::byte> best;
  double best_off = INFINITY;
  for (int place = 0; place < kPlacesMax && best_off > kCloseEnough; ++place) {
    HEADRACE_TRY(bytes, encode_jpeg_to_size(cut_anywhere(canvases, plan, random), plan));
    const double off = std::abs(static_cast<double>(bytes.size()) / plan.target_bytes - 1);
    if (off < best_off) {
      best_off = off;
      best = std::move(bytes);
    }
  }
  return best;
}

Status write_file(const fs::path& path, const std::vector<std::byte>& bytes) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file == nullptr) return io::system_error(errno, "create " + path.string());
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  if (std::fclose(file.release()) != 0 || !written) return io::system_error(errno, "write " + path.string());
  return {};
}

fs::path class_folder(const SynthOptions& options, std::uint32_t label) {
  return options.dir / fmt::format("n{:05}", label);
}

Status check(const SynthOptions& options) {
  if (options.files == 0) return make_error(ErrorCode::kInvalidArgument, "--files 0: at least one file is needed");
  if (options.classes == 0) return make_error(ErrorCode::kInvalidArgument, "--classes 0: at least one class is needed");
  std::error_code error;
  if (!fs::exists(options.dir, error) && !error) return {};
  const bool empty = !error && fs::is_empty(options.dir, error);
  if (error) return io::system_error(error.value(), "list " + options.dir.string());
  if (!empty)
    return make_error(ErrorCode::kInvalidArgument,
                      options.dir.string() + " is not empty; give a new or an empty folder");
  return {};
}

Status make_folders(const SynthOptions& options) {
  for (std::uint32_t label = 0; label < std::min(options.classes, options.files); ++label) {
    std::error_code error;
    fs::create_directories(class_folder(options, label), error);
    if (error) return io::system_error(error.value(), "create " + class_folder(options, label).string());
  }
  return {};
}

fs::path file_path(const SynthOptions& options, std::uint32_t file) {
  const std::uint32_t label = file % options.classes;
  return class_folder(options, label) / fmt::format("n{:05}_{:06}.jpg", label, file / options.classes);
}

// Removes the files by their names: other files that came into the folder meanwhile are not ours.
void remove_all_files(const SynthOptions& options, bool with_folder) {
  std::error_code ignored;
  for (std::uint32_t file = 0; file < options.files; ++file) fs::remove(file_path(options, file), ignored);
  for (std::uint32_t label = 0; label < std::min(options.classes, options.files); ++label) {
    fs::remove(class_folder(options, label), ignored);
  }
  if (with_folder) fs::remove(options.dir, ignored);
}

Result<SynthReport> make_files(const SynthOptions& options, const std::vector<Picture>& canvases) {
  HEADRACE_TRY_DO(make_folders(options));
  const std::vector<ImagePlan> plans = plan_images(options.files, options.seed);
  std::atomic<std::uint64_t> total_bytes = 0;
  const auto make_file = [&](std::uint32_t i) -> Status {
    if (options.is_cancelled && options.is_cancelled()) return make_error(ErrorCode::kCancelled, "synth was stopped");
    HEADRACE_TRY(bytes, make_sample(canvases, plans[i], (options.seed << 32) + i));
    total_bytes += bytes.size();
    return write_file(file_path(options, i), bytes);
  };
  HEADRACE_TRY_DO(for_each_parallel(options.files, make_file));
  return SynthReport{options.files, total_bytes};
}

}  // namespace

Result<SynthReport> synth_data_set(const SynthOptions& options) {
  HEADRACE_TRY_DO(check(options));
  const bool is_new = !fs::exists(options.dir);
  HEADRACE_TRY(canvases, options.from_folder.empty() ? paint_canvases(options) : load_photos(options.from_folder));
  Result<SynthReport> report = make_files(options, canvases);
  if (!report) remove_all_files(options, is_new);
  return report;
}

}  // namespace headrace::cli
