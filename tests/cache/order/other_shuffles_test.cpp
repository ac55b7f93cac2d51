// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headrace/cache/order/mt19937.h"
#include "headrace/cache/order/pcg64.h"

#include "cache/order/golden.h"
#include "support/temp_dir.h"

using namespace headrace::cache;
using namespace headrace::test;

namespace {

// Seeds beyond 64 bits stand in the files as numbers that json reads as doubles.
std::string seed_text(const json& seed) {
  if (seed.is_array()) return fmt::format("{}", fmt::join(seed.get<std::vector<std::uint32_t>>(), "/"));
  if (!seed.is_number_float()) return std::to_string(seed.get<std::int64_t>());
  return seed.get<double>() < 1e20 ? "18446744073709551621" : "1180591620717411303431";  // 2^64 + 5, 2^70 + 7
}

void check_group(const json& entries, const std::string& spec) {
  for (const json& entry : entries) {
    CAPTURE(spec);
    CAPTURE(entry["seed"]);
    CHECK(matches(epoch_of(spec + ",seed=" + seed_text(entry["seed"]), entry["n"], 0), entry));
  }
}

// The generator of the given state: what its 64-bit outputs are, by the definition of PCG64.
void check_pcg64_state(const json& entry) {
  const auto wide = [](const json& text) {
    const std::string digits = text.get<std::string>().substr(2);
    unsigned __int128 value = 0;
    for (const char digit : digits)
      value = value << 4 | static_cast<unsigned>(std::stoi(std::string(1, digit), nullptr, 16));
    return value;
  };
  unsigned __int128 state = wide(entry["state"]);
  Pcg64 engine(*Seed::parse(seed_text(entry["seed"])));
  for (int i = 0; i < 3; ++i) {
    state = state * wide("0x2360ed051fc65da44385df649fccf645") + wide(entry["inc"]);
    const auto mixed = static_cast<std::uint64_t>(state >> 64) ^ static_cast<std::uint64_t>(state);
    CHECK(engine.next64() == std::rotr(mixed, static_cast<int>(state >> 122)));
  }
}

// What numpy draws besides orders.
void check_numpy_outputs(const json& file) {
  for (const json& entry : file["default_rng_pcg64_state"]) check_pcg64_state(entry);
  for (const json& entry : file["randint_2_31"]) {
    CHECK((Mt19937(entry["np_seed"].get<std::uint32_t>()).next32() & 0x7fffffffU) == entry["value"]);
  }
  for (const json& entry : file["default_rng_integers_0_1000_size1000"]) {
    Pcg64 engine(Seed(entry["seed"].get<std::uint64_t>()));
    std::vector<SampleIndex> values(entry["n"].get<std::size_t>());
    for (SampleIndex& value : values) {
      // Lemire's rejection threshold is 2^32 % 1000 = 296.
      std::uint64_t product = std::uint64_t{engine.next32()} * 1000;
      while (static_cast<std::uint32_t>(product) < 296) product = std::uint64_t{engine.next32()} * 1000;
      value = static_cast<SampleIndex>(product >> 32);
    }
    CHECK(matches(values, entry));
  }
}

std::string lines_of(std::size_t count, int value) {
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) lines += fmt::format("{}\n", value);
  return lines;
}

}  // namespace

void headrace::test::check_numpy(const json& file) {
  check_group(file["RandomState_permutation"], "numpy:rng=randomstate");
  check_group(file["RandomState_shuffle_list"], "numpy:rng=randomstate");
  check_group(file["RandomState_init_by_array"], "numpy:seed_list=1");
  check_group(file["default_rng_permutation"], "numpy:rng=generator");
  check_group(file["default_rng_shuffle_list"], "numpy:rng=generator");
  for (const json& entry : file["np_random_seed_then_permutation_repeated"]) {
    const auto order = order_of("numpy:seed=" + seed_text(entry["seed"]), entry["n"]);
    for (std::size_t call = 0; call < entry["calls"].size(); ++call) {
      CHECK(matches(*order->epoch(call), entry["calls"][call]));
    }
  }
  check_numpy_outputs(file);
}

TEST_CASE("numpy: epochs can be reseeded, repeated, or shuffle in place") {
  CHECK(epoch_of("numpy:seed=3,epochs=seed+epoch", 99, 4) == epoch_of("numpy:seed=7", 99, 0));
  CHECK(epoch_of("numpy:seed=3,epochs=same", 99, 4) == epoch_of("numpy:seed=3", 99, 0));
  const auto once = epoch_of("numpy:seed=3,epochs=same", 99, 0);
  const auto twice = epoch_of("numpy:seed=3,epochs=same,cumulative=1", 99, 1);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == once[once[i]]);
}

void headrace::test::check_python(const json& file) {
  check_group(file["shuffle"], "python:cumulative=0");
  for (const json& entry : file["sample"]) {
    CHECK(matches(epoch_of(fmt::format("python:seed={},sample={}", seed_text(entry["seed"]), entry["k"].get<int>()),
                           entry["population"], 0),
                  entry));
  }
  const std::uint32_t key[] = {42};
  Mt19937 engine = Mt19937::by_array(key);
  for (const json& value : file["getrandbits32_seed42"]) CHECK(engine.next32() == value);
}

void headrace::test::check_dali(const json& file) {
  const std::string rule = file["made_with"] == "libstdc++ 10 headers" ? "10" : "11";
  for (const json& entry : file["cases"]) {
    const int pass = entry["pass"];
    const std::string spec = pass == 0 ? fmt::format("dali:libstdcxx={}", rule)
                                       : fmt::format("dali:mode=shuffle_after_epoch,libstdcxx={},checkpointing={}",
                                                     rule, entry["cumulative"].get<bool>() ? 0 : 1);
    CAPTURE(spec);
    CAPTURE(entry["n"]);
    CHECK(matches(epoch_of(spec, entry["n"], static_cast<std::uint64_t>(pass)), entry));
  }
}

TEST_CASE("DALI: shards are consecutive parts, a rank that does not stick to its shard goes on with the next") {
  const auto list = epoch_of("dali:mode=listed", 10, 0);
  CHECK(epoch_of("dali:mode=listed,replicas=3,rank=1", 10, 0) == std::vector<SampleIndex>{3, 4, 5});
  CHECK(epoch_of("dali:mode=listed,replicas=3,rank=1", 10, 1) == std::vector<SampleIndex>{6, 7, 8, 9});
  CHECK(epoch_of("dali:mode=listed,replicas=3,rank=1,stick_to_shard=1", 10, 1) == std::vector<SampleIndex>{3, 4, 5});
  CHECK(epoch_of("dali:mode=listed,replicas=3", 10, 0) == std::vector<SampleIndex>{0, 3, 6, 1, 4, 7, 2, 5, 8, 9});
}

void headrace::test::check_ffcv(const json& file) {
  for (const json& entry : file["random_not_distributed"]) {
    CHECK(matches(epoch_of("ffcv:seed=" + seed_text(entry["seed"]), entry["n"], entry["epoch"]), entry));
  }
  const TempDir dir;
  for (const json& entry : file["quasi_random"]) {
    const std::string pages = dir.write("pages", lines_of(entry["pages"], entry["per_page"])).string();
    const std::string spec = fmt::format("ffcv:order=quasi_random,page_sizes={},seed={},batch={}", pages,
                                         seed_text(entry["seed"]), entry["buffer"].get<int>() / 2);
    CAPTURE(spec);
    CHECK(matches(epoch_of(spec, entry["n"], entry["epoch"]), entry));
  }
}

void headrace::test::check_streaming(const json& file) {
  const TempDir dir;
  std::string mixed;
  for (int i = 0; i < 60; ++i) mixed += fmt::format("{}\n", 10 + i % 7);
  const std::map<std::string, std::string> sizes = {{"40 shards of 25", dir.write("a", lines_of(40, 25)).string()},
                                                    {"sizes 10+i%7, 60 shards", dir.write("b", mixed).string()},
                                                    {"200 shards of 256", dir.write("c", lines_of(200, 256)).string()}};
  for (const json& entry : file["cases"]) {
    const std::uint64_t nodes = entry["canonical_nodes"];
    const std::uint64_t n = entry["n"];
    const std::string spec = fmt::format(
        "streaming:shard_sizes={},algorithm={},seed={},canonical_nodes={},block_size={}", sizes.at(entry["shards"]),
        entry["algo"].get<std::string>(), entry["seed"].get<int>(), nodes, entry["block_size"].get<int>());
    CAPTURE(spec);
    // The nodes read side by side; the file has one after the other.
    const std::vector<SampleIndex> read = epoch_of(spec, n, entry["epoch"]);
    std::vector<SampleIndex> samples;
    for (std::uint64_t node = 0; node < nodes; ++node) {
      const std::uint64_t count = (node + 1) * n / nodes - node * n / nodes;
      for (std::uint64_t i = 0; i < count; ++i) samples.push_back(read[i * nodes + node]);
    }
    CHECK(matches(samples, entry));
  }
}

void headrace::test::check_webdataset(const json& file) {
  const auto spec_of = [](const char* mode, const json& entry) {
    return fmt::format("webdataset:mode={},seed={},shardshuffle={},initial={}", mode, entry["seed"].get<int>(),
                       entry["bufsize"].get<int>(), entry["initial"].get<int>());
  };
  for (const json& entry : file["detshuffle"]) {
    for (std::size_t epoch = 0; epoch < entry["epochs"].size(); ++epoch)
      CHECK(matches(epoch_of(spec_of("detshuffle", entry), entry["n"], epoch), entry["epochs"][epoch]));
  }
  for (const json& entry : file["shuffle_seed"]) {
    CHECK(matches(epoch_of(spec_of("shuffle", entry), entry["n"], 0), entry));
    CHECK(matches(epoch_of(spec_of("shuffle", entry), entry["n"], 9), entry));
  }
  for (const json& entry : file["SimpleShardList"]) {
    CHECK(
        matches(epoch_of(fmt::format("webdataset:mode=list,seed={}", entry["seed"].get<int>()), entry["n"], 4), entry));
  }
}

TEST_CASE("WebDataset: shards are dealt to ranks, then to workers, each of which shuffles its own") {
  using List = std::vector<SampleIndex>;
  CHECK(epoch_of("webdataset:mode=none,replicas=2,rank=1,workers=2", 9, 0) == List{1, 3, 5, 7});
  CHECK(epoch_of("webdataset:mode=none,replicas=2,rank=0,workers=2", 9, 0) == List{0, 2, 4, 6, 8});
  CHECK(epoch_of("webdataset:mode=none,replicas=2,workers=2", 9, 0) == List{0, 1, 2, 3, 4, 5, 6, 7, 8});
  const List of_worker = epoch_of("webdataset:seed=3", 50, 0);
  const List all = epoch_of("webdataset:seed=3,workers=2", 100, 0);
  for (std::size_t i = 0; i < of_worker.size(); ++i) {
    CHECK(all[2 * i] == 2 * of_worker[i]);  // both have the same seed
    CHECK(all[2 * i + 1] == 2 * of_worker[i] + 1);
  }
  CHECK(epoch_of("webdataset:mode=detshuffle,persistent=0", 50, 3) == epoch_of("webdataset:mode=detshuffle", 50, 0));
  CHECK(epoch_of("webdataset:workers=4", 0, 0).empty());
  CHECK(order_of("webdataset:replicas=4,rank=1-2,workers=3", 11)->workers().batch == 2);
}

// By LitData's rules, written down a second time in Python with numpy: the library is not in Debian.
TEST_CASE("LitData: chunks come as an epoch touches them first") {
  using List = std::vector<SampleIndex>;
  const TempDir dir;
  std::string sizes;
  for (int i = 0; i < 20; ++i) sizes += fmt::format("{}\n", 5 + i % 4);
  const std::string of = "litdata:chunk_sizes=" + dir.write("sizes", sizes).string();
  CHECK(epoch_of(of, 20, 0) == List{9, 6, 19, 14, 5, 8, 12, 10, 15, 18, 7, 2, 13, 11, 1, 3, 16, 17, 0, 4});
  CHECK(epoch_of(of + ",workers=3", 20, 1) ==
        List{15, 18, 10, 16, 1, 4, 14, 0, 6, 9, 19, 12, 2, 7, 13, 5, 17, 8, 11, 3});
  CHECK(epoch_of(of + ",seed=7,workers=2,replicas=2", 20, 2) ==
        List{7, 3, 8, 11, 18, 17, 1, 10, 16, 0, 13, 5, 19, 15, 2, 6, 12, 4, 14, 9});
  CHECK(epoch_of(of + ",seed=7,workers=2,replicas=2,rank=1", 20, 2) == List{8, 11, 17, 1, 16, 0, 19, 15, 12, 4, 9});
  CHECK(epoch_of(of + ",seed=7,workers=2,replicas=3,drop_last=1,batch=4", 20, 0) ==
        List{7, 6, 4, 13, 14, 10, 1, 15, 12, 19, 5, 16, 11, 2, 9, 18, 0, 8, 17});
  CHECK(epoch_of(of + ",shuffle=0,workers=2,replicas=2", 20, 5) ==
        List{0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 17, 12, 3, 13, 18, 8, 9, 14, 4, 19});
  CHECK(order_of(of + ",replicas=2,rank=0", 20)->length(0) < 20);
  CHECK(refusal_of(of, 21).find("lists 20 chunks, the data set has 21 files") != std::string::npos);
  CHECK(refusal_of("litdata").find("needs chunk_sizes=PATH") != std::string::npos);
}

// As numpy writes them.
template <typename Integer>
std::string npy(std::string_view type, std::string_view shape, const std::vector<Integer>& values) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.resize(118, ' ');
  header.back() = '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  return bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Integer));
}

// Sequences of 3, 5, 2, 7, 4 and 6 tokens, read as samples of 4 and the one after these, by Megatron-Core's rules.
TEST_CASE("Megatron: sequences come as the saved indices have them") {
  using List = std::vector<SampleIndex>;
  const TempDir dir;
  const std::string documents =
      dir.write("document_index.npy", npy<std::int32_t>("<i4", "(6,)", {4, 2, 0, 5, 3, 1})).string();
  const std::vector<std::int64_t> rows = {0, 0, 1, 0, 2, 2, 3, 3, 4, 1, 4, 5, 5, 2};
  const std::string samples = dir.write("sample_index.npy", npy("<i8", "(7, 2)", rows)).string();
  const auto of = [&](const std::string& shuffle) {
    return fmt::format("megatron:documents={},samples={},shuffle={}", documents, samples, shuffle);
  };
  const std::string shuffle =
      dir.write("shuffle_index.npy", npy<std::uint32_t>("<u4", "(6,)", {3, 0, 5, 2, 4, 1})).string();
  CHECK(epoch_of(of(shuffle), 6, 0) == List{5, 3, 4, 2, 3, 1, 0, 5, 3, 2, 0});
  CHECK(epoch_of(of(shuffle) + ",replicas=2,rank=0", 6, 0) == List{5, 3, 3, 1, 3});
  CHECK(epoch_of(of(shuffle) + ",replicas=2,rank=1", 6, 1) == List{4, 2, 0, 5, 2, 0});
  CHECK(epoch_of(of(shuffle) + ",replicas=2,rank=0,batch=2", 6, 0) == List{5, 3, 4, 2});  // the last two are dropped
  CHECK(epoch_of(of(shuffle) + ",replicas=2,rank=0,batch=2,drop_last=0", 6, 0) == List{5, 3, 4, 2, 3, 2, 0});
  CHECK(refusal_of("megatron").find("needs documents=PATH") != std::string::npos);
  CHECK(refusal_of(of(shuffle), 5).find("names sequence 5, and there are 5") != std::string::npos);
  const auto refusal_with = [&](const std::string& bytes) {
    return refusal_of(of(dir.write("other.npy", bytes).string()), 6);
  };
  CHECK(refusal_with(npy<std::uint32_t>("<u4", "(1,)", {6})).find("names sample 6") != std::string::npos);
  CHECK(refusal_with(npy<std::int32_t>("<i4", "(1,)", {-1})).find("names sample 18446744073709551615") !=
        std::string::npos);
  CHECK(refusal_with(npy<float>("<f4", "(1,)", {0})).find("no whole numbers") != std::string::npos);
  CHECK(refusal_with("text").find("is no .npy file") != std::string::npos);
  CHECK(refusal_with(npy<std::uint32_t>("<u4", "(1,)", {0}).substr(0, 60)).find("within its header") !=
        std::string::npos);
  const std::vector<std::uint32_t> again(40, 3);
  CHECK(refusal_with(npy("<u4", "(40,)", again)).find("samples that overlap") != std::string::npos);
}

// The first of Grain's own documentation (WindowShuffleMapDataset), the others by its index_shuffle.cc.
TEST_CASE("Grain: index_shuffle of every epoch") {
  using List = std::vector<SampleIndex>;
  CHECK(epoch_of("grain:seed=42", 3, 0) == List{0, 1, 2});
  CHECK(epoch_of("grain:seed=42", 3, 1) == List{2, 0, 1});
  CHECK(epoch_of("grain:seed=42", 3, 3) == List{2, 0, 1});
  const auto begins_and_ends = [](const char* spec, std::uint64_t n, std::uint64_t epoch, const List& begin,
                                  SampleIndex end) {
    const List order = epoch_of(spec, n, epoch);
    return std::equal(begin.begin(), begin.end(), order.begin()) && order.back() == end;
  };
  CHECK(begins_and_ends("grain", 1000, 0, {134, 133, 624, 287, 938, 69, 95, 876}, 568));
  // 65537 positions do not fit into the 16 bits that Grain takes for them: the last is shuffled as the first.
  CHECK(begins_and_ends("grain:seed=3", 65'537, 4, {8812, 17'398, 45'604, 57'751}, 8812));
  CHECK(begins_and_ends("grain:seed=4294967295", 100'000, 0, {4613, 66'028, 67'352, 46'723}, 5302));
  CHECK(begins_and_ends("grain:seed=1", 1'281'167, 0, {105'501, 657'866, 499'247, 793'072}, 474'645));
  CHECK(epoch_of("grain:seed=4294967295", 1000, 1) == epoch_of("grain", 1000, 0));
  CHECK(epoch_of("grain", 1, 0) == List{0});
  CHECK(epoch_of("grain", 0, 0).empty());
  CHECK(refusal_of("grain:seed=4294967296").find("below 2^32") != std::string::npos);
}

TEST_CASE("streaming: files that are shards come as an epoch touches them first") {
  const TempDir dir;
  const std::string sizes = dir.write("sizes", "4\n0\n3\n5\n").string();
  for (const char* algorithm : {"py1e", "py1br", "py1b", "py1s", "py2s", "naive"}) {
    const std::string spec =
        fmt::format("streaming:algorithm={},block_size=8,canonical_nodes=2,shard_sizes={}", algorithm, sizes);
    CAPTURE(spec);
    std::vector<SampleIndex> expected;
    for (const SampleIndex sample : epoch_of(spec, 12, 1)) {
      const SampleIndex shard = sample < 4 ? 0 : sample < 7 ? 2 : 3;
      if (std::ranges::find(expected, shard) == expected.end()) expected.push_back(shard);
    }
    CHECK(epoch_of(spec, 4, 1) == expected);
  }
  CHECK(refusal_of("streaming:shard_sizes=" + sizes, 5).find("12 samples together") != std::string::npos);
  CHECK(refusal_of("streaming").find("needs shard_sizes=PATH") != std::string::npos);
}

TEST_CASE("FFCV: pages without samples, and samples that the pages list in an order of their own") {
  const TempDir dir;
  const std::string sizes = dir.write("sizes", "0\n3\n0\n1\n2\n").string();
  const std::string samples = dir.write("samples", "9\n7\n8\n0\n5\n4\n").string();
  const std::string spec = "ffcv:order=quasi_random,batch=1,seed=2,page_sizes=" + sizes + ",page_samples=" + samples;
  CHECK(order_of(spec, 10)->length(0) == 6);
  // FFCV's rule, written down a second time in Python.
  const std::vector<std::vector<SampleIndex>> epochs = {{0, 7, 5, 8, 9, 4}, {0, 4, 5, 9, 7, 8}, {9, 0, 5, 4, 8, 7},
                                                        {8, 7, 9, 5, 4, 0}, {9, 7, 8, 0, 5, 4}, {4, 8, 9, 7, 5, 0},
                                                        {0, 5, 9, 7, 4, 8}, {9, 7, 0, 8, 5, 4}};
  for (std::size_t epoch = 0; epoch < epochs.size(); ++epoch) CHECK(epoch_of(spec, 10, epoch) == epochs[epoch]);
  CHECK(refusal_of(spec, 5).find("line 1") != std::string::npos);
  CHECK(refusal_of("ffcv:order=quasi_random,page_sizes=" + sizes, 10).find("hold 6 samples") != std::string::npos);
  CHECK(refusal_of("ffcv:page_sizes=" + sizes, 6).find("order=quasi_random") != std::string::npos);
}

TEST_CASE("FFCV: distributed is DistributedSampler") {
  CHECK(epoch_of("ffcv:distributed=1,seed=4,replicas=2,rank=0", 31, 2) ==
        epoch_of("torch-distributed:seed=4,replicas=2,rank=0", 31, 2));
}

TEST_CASE("DLIO: each epoch shuffles the list of the one before, seeded with 123 + epoch") {
  const auto first = epoch_of("dlio", 40, 0);
  CHECK(first == epoch_of("numpy:seed=124", 40, 0));
  const auto step = epoch_of("numpy:seed=125", 40, 0);
  const auto second = epoch_of("dlio", 40, 1);
  for (std::size_t i = 0; i < second.size(); ++i) CHECK(second[i] == first[step[i]]);
}

TEST_CASE("Keras: one base order for every epoch, validation is its tail") {
  const auto all = epoch_of("numpy:seed=5", 100, 0);
  CHECK(epoch_of("keras:seed=5", 100, 7) == all);
  CHECK(epoch_of("keras:seed=5,validation_split=0.25", 100, 0) == std::vector(all.begin(), all.begin() + 75));
  CHECK(epoch_of("keras:seed=5,validation_split=0.25,subset=validation", 100, 0) ==
        std::vector(all.begin() + 75, all.end()));
  const WorkerLayout slack = order_of("keras:batch=64", 100)->workers();
  CHECK(std::uint64_t{slack.batch} * slack.workers * slack.prefetch_factor == 64 * 8);
}
