// SPDX-License-Identifier: Apache-2.0
// megatron: the indices that GPTDataset saves as .npy (megatron/core/datasets/gpt_dataset.py), over the sequences of
// its .bin file. The shuffle index says which sample comes next. The sample index says where in the document index a
// sample begins, and the next row where it ends: in the sequence in which that row begins. The document index says
// which sequences these are. MegatronPretrainingSampler deals micro batches to the ranks, and drops the last ones that
// are not complete.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"

namespace headrace::cache {
namespace {

[[nodiscard]] tl::unexpected<io::Error> refused(const std::string& path, std::string_view problem) {
  return io::make_error(io::ErrorCode::kInvalidArgument, fmt::format("order 'megatron': {}: {}", path, problem));
}

// Whole numbers in an .npy file, in C order.
class SavedIndex {
 public:
  [[nodiscard]] static Result<SavedIndex> read(const std::string& path);

  [[nodiscard]] std::uint64_t size() const { return (bytes_.size() - begin_) / item_bytes_; }
  // A negative one is larger than any index.
  [[nodiscard]] std::uint64_t operator[](std::uint64_t i) const {
    const char* const at = bytes_.data() + begin_ + i * item_bytes_;
    if (item_bytes_ == 8) return value_at<std::uint64_t>(at);
    return is_signed_ ? static_cast<std::uint64_t>(value_at<std::int32_t>(at)) : value_at<std::uint32_t>(at);
  }

 private:
  template <typename Integer>
  [[nodiscard]] static Integer value_at(const char* at) {
    Integer value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }

  std::string bytes_;
  std::size_t begin_ = 0;
  std::size_t item_bytes_ = 4;
  bool is_signed_ = true;
};

[[nodiscard]] Result<std::string> read_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return io::system_error(errno, "open order file " + path);
  if (!S_ISREG(status.st_mode)) return refused(path, "is no regular file");
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return io::system_error(errno, "read order file " + path);
  return bytes;
}

// The header is Python's text of a dict, behind its length.
Result<SavedIndex> SavedIndex::read(const std::string& path) {
  HEADRACE_TRY(bytes, read_file(path));
  constexpr std::size_t kFixed = 12;  // of version 2 and later, whose length has four bytes
  if (bytes.size() < kFixed || !bytes.starts_with("\x93NUMPY")) return refused(path, "is no .npy file");
  const bool is_first_version = bytes[6] == 1;
  const std::size_t header_at = is_first_version ? 10 : kFixed;
  const std::size_t header_bytes =
      is_first_version ? value_at<std::uint16_t>(&bytes[8]) : value_at<std::uint32_t>(&bytes[8]);
  if (header_bytes > bytes.size() - header_at) return refused(path, "ends within its header");
  const std::string_view header(bytes.data() + header_at, header_bytes);
  SavedIndex index;
  const auto has = [&header](std::string_view type) { return header.find(type) != std::string_view::npos; };
  index.is_signed_ = has("'<i4'") || has("'<i8'");
  index.item_bytes_ = has("'<i8'") || has("'<u8'") ? 8 : 4;
  if (!index.is_signed_ && !has("'<u4'") && !has("'<u8'"))
    return refused(path, "has no whole numbers of 32 or 64 bits");
  if (!has("'fortran_order': False")) return refused(path, "is in Fortran order");
  index.begin_ = header_at + header_bytes;
  index.bytes_ = std::move(bytes);
  return index;
}

struct SavedIndices {
  std::string documents;
  std::string samples;
  std::string shuffle;
};

struct Dealing {
  std::uint64_t micro_batch = 1;
  std::uint64_t replicas = 1;
  std::uint64_t first_rank = 0;
  std::uint64_t rank_count = 1;
  bool drop_last = true;

  [[nodiscard]] bool reads(std::uint64_t at, std::uint64_t count) const {
    const std::uint64_t step = micro_batch * replicas;
    if (drop_last && at >= count / step * step) return false;
    const std::uint64_t rank = at % step / micro_batch;
    return rank >= first_rank && rank - first_rank < rank_count;
  }
};

// Of one sample, after what is there already.
[[nodiscard]] io::Status add_sequences(const SavedIndices& paths, const SavedIndex& documents, std::uint64_t begin,
                                       std::uint64_t last, std::uint64_t sample_count, Samples& read) {
  if (begin > last || last >= documents.size())
    return refused(paths.samples, "has a sample beyond the entries of " + paths.documents);
  for (std::uint64_t entry = begin; entry <= last; ++entry) {
    if (documents[entry] >= sample_count)
      return refused(paths.documents,
                     fmt::format("names sequence {}, and there are {}", documents[entry], sample_count));
    read.push_back(static_cast<SampleIndex>(documents[entry]));
  }
  return {};
}

[[nodiscard]] Result<Samples> sequences_read(const SavedIndices& paths, const Dealing& dealing,
                                             std::uint64_t sample_count) {
  HEADRACE_TRY(documents, SavedIndex::read(paths.documents));
  HEADRACE_TRY(samples, SavedIndex::read(paths.samples));
  HEADRACE_TRY(shuffle, SavedIndex::read(paths.shuffle));
  const std::uint64_t rows = samples.size() / 2;
  Samples read;
  for (std::uint64_t at = 0; at < shuffle.size(); ++at) {
    if (!dealing.reads(at, shuffle.size())) continue;
    const std::uint64_t row = shuffle[at];
    if (rows == 0 || row >= rows - 1)
      return refused(paths.shuffle, fmt::format("names sample {}, which {} does not have", row, paths.samples));
    HEADRACE_TRY_DO(add_sequences(paths, documents, samples[2 * row], samples[2 * (row + 1)], sample_count, read));
    // Each sample once, and each shares one sequence with the one before it.
    if (read.size() > documents.size() + shuffle.size()) return refused(paths.samples, "has samples that overlap");
  }
  read.shrink_to_fit();
  return read;
}

}  // namespace

OrderResult make_megatron(Parameters& parameters, const OrderInput& input) {
  const auto path = [&parameters](std::string_view name) {
    const std::optional<std::string> given = parameters.text(name);
    if (!given) parameters.fail(fmt::format("needs {}=PATH: the .npy file that the training saved", name));
    return given.value_or("");
  };
  const SavedIndices paths{.documents = path("documents"), .samples = path("samples"), .shuffle = path("shuffle")};
  const Shards ranks = read_shards(parameters);
  const Dealing dealing{.micro_batch = read_worker_layout(parameters).batch,
                        .replicas = ranks.replicas,
                        .first_rank = ranks.first_rank,
                        .rank_count = ranks.rank_count,
                        .drop_last = parameters.flag("drop_last", true)};
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  HEADRACE_TRY(read, sequences_read(paths, dealing, input.sample_count));
  const auto samples = std::make_shared<const Samples>(std::move(read));
  const auto draw = [samples](std::uint64_t /*epoch*/, std::uint64_t count) -> Result<Samples> {
    return Samples(samples->begin(), samples->begin() + static_cast<std::ptrdiff_t>(count));
  };
  return make_sharded_order(parameters.spec(),
                            {.list_length = samples->size(), .draw = draw, .shards = {.total = samples->size()}});
}

}  // namespace headrace::cache
