// SPDX-License-Identifier: Apache-2.0
#include "headrace/capi/internal/dataset.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <xxhash.h>

#include "headrace/cache/object_store.h"
#include "headrace/io/memory_limit.h"
#include "headrace/io/unique_fd.h"

namespace headrace::capi {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;

constexpr std::uint64_t kRamShare = 4;  // as the commands of headrace take by default

template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};
constexpr Choice<cache::ListingRule> kListings[] = {{"imagefolder", cache::ListingRule::kImageFolder},
                                                    {"timm", cache::ListingRule::kTimm},
                                                    {"dali", cache::ListingRule::kDali},
                                                    {"keras", cache::ListingRule::kKeras},
                                                    {"sorted", cache::ListingRule::kSorted}};
constexpr Choice<io::EngineOptions::Kind> kEngines[] = {{"auto", io::EngineOptions::Kind::kAutomatic},
                                                        {"uring", io::EngineOptions::Kind::kUring},
                                                        {"pread", io::EngineOptions::Kind::kPread}};

// NULL: the first choice.
template <typename Value, std::size_t kCount>
io::Result<Value> choose(const char* what, const char* name, const Choice<Value> (&choices)[kCount]) {
  if (name == nullptr) return choices[0].value;
  std::string known;
  for (const Choice<Value>& choice : choices) {
    if (choice.name == name) return choice.value;
    known += (known.empty() ? "" : ", ") + std::string(choice.name);
  }
  return make_error(ErrorCode::kInvalidArgument, std::string(what) + " '" + name + "' is unknown; there are: " + known);
}

// mountinfo(5): the third word is the device, and the type follows " - ".
bool is_headrace_mount(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  const std::string device =
      " " + std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev)) + " ";
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const bool of_headrace =
        line.find(" - fuse.headrace ") != std::string::npos || line.find(" headrace-overlay ") != std::string::npos;
    if (of_headrace && line.find(device) != std::string::npos) return true;
  }
  return false;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end();
}

io::Result<cache::TierOptions> read_tier(const hr_tier& tier, const fs::path& source) {
  if (tier.path == nullptr || *tier.path == '\0' || tier.budget_bytes == 0) {
    return make_error(ErrorCode::kInvalidArgument, "a tier needs a path and a budget");
  }
  if (tier.kind != HR_TIER_SSD && tier.kind != HR_TIER_HDD) {
    return make_error(ErrorCode::kInvalidArgument, std::string("tier ") + tier.path + ": its kind is ssd or hdd");
  }
  std::error_code failed;
  const fs::path path = fs::weakly_canonical(tier.path, failed);
  if (failed) return io::system_error(failed.value(), std::string("tier ") + tier.path);
  if (is_inside(path, source) || is_inside(source, path)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "tier " + path.string() + " and the data set lie in each other; choose a folder elsewhere");
  }
  return cache::TierOptions{.kind = tier.kind == HR_TIER_SSD ? cache::TierKind::kSsd : cache::TierKind::kHdd,
                            .path = path,
                            .budget_bytes = tier.budget_bytes};
}

io::Result<cache::StoreOptions> store_options(const hr_dataset_options& options, const fs::path& source,
                                              bool is_mount) {
  // With records the listing chooses nothing, and this one does not warn where there are no images.
  const char* const name = options.listing == nullptr && options.records != nullptr ? "sorted" : options.listing;
  HEADRACE_TRY(listing, choose("listing", name, kListings));
  HEADRACE_TRY(engine, choose("engine", options.engine, kEngines));
  cache::StoreOptions store;
  store.source = source;
  store.catalog.listing = listing;
  if (options.sample_list != nullptr) store.catalog.sample_list = options.sample_list;
  if (options.catalog_file != nullptr) store.catalog_file = options.catalog_file;
  store.engine.kind = engine;
  store.ram_bytes = options.ram_bytes;
  if (options.ram_bytes == HR_RAM_DEFAULT) store.ram_bytes = is_mount ? 0 : io::memory_limit_bytes() / kRamShare;
  if (options.tiers == nullptr && options.tier_count > 0) {
    return make_error(ErrorCode::kInvalidArgument, "tiers is NULL, but tier_count is not 0");
  }
  for (uint64_t i = 0; i < options.tier_count; ++i) {
    HEADRACE_TRY(tier, read_tier(options.tiers[i], source));
    if (options.keep_free_bytes != nullptr) tier.keep_free_bytes = options.keep_free_bytes[i];
    for (const cache::TierOptions& other : store.tiers) {
      if (other.path == tier.path) {
        return make_error(ErrorCode::kInvalidArgument, "tier " + tier.path.string() + " is named twice");
      }
    }
    store.tiers.push_back(std::move(tier));
  }
  return store;
}

// The folder, absolute and without symlinks; a bucket as it was named.
io::Result<fs::path> source_folder(const char* path) {
  if (path == nullptr || *path == '\0') return make_error(ErrorCode::kInvalidArgument, "a data set needs a path");
  if (cache::is_object_url(path)) return fs::path(path);
  std::error_code failed;
  fs::path source = fs::canonical(path, failed);
  if (failed) return io::system_error(failed.value(), std::string("data set ") + path);
  if (!fs::is_directory(source, failed)) {
    return make_error(ErrorCode::kInvalidArgument,
                      std::string("data set ") + path + " is no folder; name the folder that holds the samples");
  }
  return source;
}

io::Status open_records(Dataset& dataset, const fs::path& source, const char* records) {
  const io::UniqueFd directory(::open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return io::system_error(errno, "data set " + source.string());
  HEADRACE_TRY(set, cache::open_record_set(directory.get(), dataset.catalog(), records));
  dataset.records = std::move(set);
  return {};
}

// 2^61 - 1: its residues have inverses, so that a quotient names the sample that differs.
constexpr std::uint64_t kPrime = (1ULL << 61) - 1;

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{a} * b % kPrime);
}

// A number for the path and the size of a file. Samples follow each other by folder, whose path is then built once.
class SampleHash {
 public:
  explicit SampleHash(const cache::Catalog& catalog) : catalog_(catalog) {}

  std::uint64_t operator()(cache::EntryId entry) {
    const cache::EntryId folder = catalog_.parent(entry);
    if (folder != folder_) {
      const std::string path = catalog_.path(folder);
      folder_hash_ = XXH3_64bits(path.data(), path.size());
      folder_ = folder;
    }
    const std::uint64_t of_file[] = {folder_hash_, catalog_.size_bytes(entry)};
    const std::string_view name = catalog_.name(entry);
    return XXH3_64bits_withSeed(name.data(), name.size(), XXH3_64bits(of_file, sizeof(of_file)));
  }

 private:
  const cache::Catalog& catalog_;
  cache::EntryId folder_ = cache::kNoEntry;
  std::uint64_t folder_hash_ = 0;
};

class DigestSums {
 public:
  void add(std::uint64_t number, std::uint64_t hash) {
    hash %= kPrime;
    sum_ = (sum_ + hash) % kPrime;
    weighted_sum_ = (weighted_sum_ + product(hash, number + 1)) % kPrime;
  }
  [[nodiscard]] hr_digest over(std::uint64_t sample_count) const { return {sample_count, sum_, weighted_sum_}; }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t weighted_sum_ = 0;
};

// What the file is called, its size as its map knows it, and where each record lies: another map of the same file has
// other records.
std::uint64_t hash_of_pack(const std::string& path, const cache::RecordMap& map) {
  constexpr std::uint64_t kAtOnce = 4096;  // records
  std::vector<std::uint64_t> numbers = {XXH3_64bits(path.data(), path.size()), map.file_bytes()};
  std::uint64_t hash = 0;
  for (std::uint64_t record = 0; record < map.count();) {
    for (const std::uint64_t end = std::min(record + kAtOnce, map.count()); record < end; ++record) {
      const cache::RecordExtent extent = map.extent(record);
      numbers.insert(numbers.end(), {extent.offset, extent.length});
    }
    hash = XXH3_64bits_withSeed(numbers.data(), numbers.size() * sizeof(std::uint64_t), hash);
    numbers.clear();
  }
  return hash;
}

// A pack has the number of its first record.
hr_digest digest_of_packs(const Dataset& dataset) {
  const cache::RecordSet& records = *dataset.records;
  DigestSums sums;
  for (std::size_t i = 0; i < records.packs().size(); ++i) {
    const cache::Pack& pack = records.packs()[i];
    sums.add(records.first_record(i), hash_of_pack(dataset.catalog().path(pack.entry), pack.map));
  }
  return sums.over(records.count());
}

hr_digest digest_of(const Dataset& dataset) {
  if (dataset.records) return digest_of_packs(dataset);
  const cache::Catalog& catalog = dataset.catalog();
  SampleHash hash_of(catalog);
  DigestSums sums;
  for (cache::SampleIndex i = 0; i < catalog.sample_count(); ++i) sums.add(i, hash_of(catalog.sample_entry(i)));
  return sums.over(catalog.sample_count());
}

}  // namespace

io::Result<std::unique_ptr<cache::Order>> Dataset::order(std::string_view spec) const {
  cache::OrderInput input;
  input.sample_count = sample_count();
  input.find_sample = [this](std::string_view path) -> std::optional<cache::SampleIndex> {
    if (records) return std::nullopt;  // which have no paths
    const std::optional<cache::EntryId> entry = catalog().find(path);
    return entry ? catalog().sample_of(*entry) : std::nullopt;
  };
  return cache::make_order(spec, input);
}

io::Result<std::shared_ptr<Dataset>> open_dataset(const hr_dataset_options& options) {
  HEADRACE_TRY(source, source_folder(options.path));
  if (options.records != nullptr && options.sample_list != nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "records are of all packs in the folder; leave out the sample list");
  }
  if (options.records != nullptr && cache::is_object_url(source.native())) {
    return make_error(ErrorCode::kInvalidArgument, "records: the index of a pack is read from a folder; mount " +
                                                       source.string() + " and name the mount");
  }
  auto dataset = std::make_shared<Dataset>();
  dataset->is_mount = is_headrace_mount(source);
  HEADRACE_TRY(chosen, store_options(options, source, dataset->is_mount));
  if (dataset->is_mount && (chosen.ram_bytes > 0 || options.tier_count > 0)) {
    return make_error(ErrorCode::kInvalidArgument,
                      source.string() + " is a mount of headrace, which has its own tiers; leave out ram, ssd and hdd");
  }
  HEADRACE_TRY(store, cache::Store::open(chosen));
  if (store->catalog().sample_count() == 0) {
    return make_error(ErrorCode::kNotFound,
                      "data set " + source.string() + " holds no samples; is it the right folder, and mounted?");
  }
  HEADRACE_TRY(paths, cache::loader_paths(store->catalog(), chosen.catalog));
  dataset->paths = std::move(paths);
  dataset->store = std::move(store);
  if (options.records != nullptr) HEADRACE_TRY_DO(open_records(*dataset, source, options.records));
  return dataset;
}

}  // namespace headrace::capi

using headrace::capi::guarded;

int32_t hr_dataset_open(const hr_dataset_options* options, hr_dataset** dataset) {
  return guarded([&]() -> headrace::io::Status {
    *dataset = nullptr;
    constexpr uint64_t kLeast = offsetof(hr_dataset_options, tier_count) + sizeof(uint64_t);
    HEADRACE_TRY(known, headrace::capi::known_part(options, kLeast, "hr_dataset_options"));
    HEADRACE_TRY(shared, headrace::capi::open_dataset(known));
    *dataset = new hr_dataset{std::move(shared)};
    return {};
  });
}

void hr_dataset_close(hr_dataset* dataset) {
  if (dataset != nullptr && dataset->shared->home.is_here()) delete dataset;
}

uint64_t hr_dataset_size(const hr_dataset* dataset) {
  return dataset->shared->sample_count();
}

uint64_t hr_dataset_class_count(const hr_dataset* dataset) {
  return dataset->shared->records ? 0 : dataset->shared->catalog().class_count();
}

int32_t hr_dataset_is_mount(const hr_dataset* dataset) {
  return dataset->shared->is_mount ? 1 : 0;
}

int32_t hr_dataset_labels(const hr_dataset* dataset, uint32_t* labels) {
  const headrace::capi::Dataset& shared = *dataset->shared;
  for (headrace::cache::SampleIndex i = 0; i < shared.sample_count(); ++i)
    labels[i] = shared.records ? 0 : shared.catalog().sample_label(i);
  return HR_OK;
}

uint64_t hr_dataset_path(const hr_dataset* dataset, uint64_t index, char* buffer, uint64_t buffer_bytes) {
  std::string path;
  const int32_t status = guarded([&]() -> headrace::io::Status {
    const headrace::capi::Dataset& shared = *dataset->shared;
    if (index >= shared.sample_count()) return {};
    const auto sample = static_cast<headrace::cache::SampleIndex>(index);
    path = shared.records ? shared.catalog().path(shared.entry(sample))
                          : headrace::cache::loader_path(shared.catalog(), shared.paths, sample);
    return {};
  });
  return status == HR_OK ? headrace::capi::copy_text(path, buffer, buffer_bytes) : 0;
}

int32_t hr_dataset_digest(const hr_dataset* dataset, hr_digest* digest) {
  return guarded([&]() -> headrace::io::Status {
    *digest = headrace::capi::digest_of(*dataset->shared);
    return {};
  });
}

int32_t hr_order_epoch(const hr_dataset* dataset, const char* order, uint64_t epoch, uint32_t* indices,
                       uint64_t* count) {
  return guarded([&]() -> headrace::io::Status {
    HEADRACE_TRY(made, dataset->shared->order(order == nullptr ? "" : order));
    if (indices == nullptr) {
      *count = made->length(epoch);
      return {};
    }
    HEADRACE_TRY(samples, made->epoch(epoch));
    *count = std::min<uint64_t>(*count, samples.size());
    std::copy_n(samples.begin(), *count, indices);
    return {};
  });
}
