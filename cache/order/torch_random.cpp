// SPDX-License-Identifier: Apache-2.0
// torch-random: RandomSampler, which DataLoader(shuffle=True) uses (torch/utils/data/sampler.py and dataloader.py).
//
// Each pass over a loader draws, in this order:
//   1. iter(loader): base_seed, 2 outputs of the loader's generator or else of the default generator
//   2. the first batch: without a generator 2 outputs of the default one, whose second seeds a fresh generator for the
//      permutation; with one, the permutation comes straight from it
//   3. after the whole permutations, torch >= 1.12: a further one, of which num_samples % n elements are used; drawn
//      when its first element is asked for, or at the sampler's end where none of it is used
// So with the default generator epoch e's seed is output 4e + 3 where nothing else draws; whatever else does, draws
// before (offset) or once per epoch (stride).
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kSeedOutputs = 2;        // one 64-bit draw
constexpr std::uint64_t kReplacementChunk = 32;  // elements that RandomSampler draws together with replacement

struct RandomSampler {
  std::uint64_t n = 0;
  std::uint64_t num_samples = 0;
  bool replacement = false;
  TorchVersion version;

  [[nodiscard]] Samples pass(Mt19937& generator, std::uint64_t count) const {
    if (replacement) return with_replacement(generator, count);
    Samples samples;
    while (samples.size() < count) {
      const Samples part = torch_randperm(generator, n, count - samples.size(), version);
      samples.insert(samples.end(), part.begin(), part.end());
    }
    return samples;
  }

  // The count of elements asked for when the sampler is driven past its last one.
  [[nodiscard]] std::uint64_t to_the_end() const { return num_samples + 1; }

  // What one pass that asks for `asked` elements takes from the generator that it shuffles with. A permutation is drawn
  // when its first element is asked for; a chunk with replacement likewise.
  [[nodiscard]] std::uint64_t outputs(std::uint64_t asked) const {
    const std::uint64_t given = std::min(asked, num_samples);
    if (replacement) {
      const std::uint64_t drawn = std::min(ceil_div(given, kReplacementChunk) * kReplacementChunk, num_samples);
      return drawn * (wide_randint() ? 2 : 1);
    }
    const bool ended = asked > num_samples && version.draws_tail_permutation();
    return (ended ? num_samples / n + 1 : ceil_div(given, n)) * randperm_outputs(n, version);
  }

 private:
  // torch.randint draws 64 bits from this range on (pytorch pull requests 143787 and 144819).
  [[nodiscard]] bool wide_randint() const {
    return n >= (version >= TorchVersion{.major = 2, .minor = 7} ? std::uint64_t{1} << 28 : std::uint64_t{1} << 32);
  }
  [[nodiscard]] Samples with_replacement(Mt19937& generator, std::uint64_t count) const {
    Samples samples(count);
    for (SampleIndex& sample : samples) {
      sample = static_cast<SampleIndex>((wide_randint() ? generator.next64_high_first() : generator.next32()) % n);
    }
    return samples;
  }
};

// When the epochs of a run draw what from which generator.
struct RandomRun {
  RandomSampler sampler;
  std::uint32_t seed = 0;
  bool explicit_generator = false;
  bool loader = true;       // false: the sampler is iterated without a DataLoader
  bool persistent = false;  // persistent_workers: base_seed is drawn on the first pass only
  std::uint64_t asked = 0;  // elements that each epoch asks the sampler for
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> stride = std::nullopt;

  [[nodiscard]] bool shuffles_with_stream() const {
    return explicit_generator || sampler.version.shuffles_with_default_generator();
  }
  [[nodiscard]] std::uint64_t outputs_per_epoch() const {
    if (stride) return *stride;
    return (loader && !persistent ? kSeedOutputs : 0) + (explicit_generator ? 0 : kSeedOutputs) +
           (shuffles_with_stream() ? sampler.outputs(asked) : 0);
  }
  // The generator as the pass of `epoch` finds it.
  [[nodiscard]] Result<Mt19937> generator(std::uint64_t epoch) const {
    const bool draws_base_seed = loader && (epoch == 0 || !persistent);
    const std::uint64_t persistent_once = loader && persistent && epoch > 0 ? kSeedOutputs : 0;
    Mt19937 stream(seed);
    if (Status good =
            skip(stream, epoch, outputs_per_epoch(), offset + persistent_once + (draws_base_seed ? kSeedOutputs : 0));
        !good) {
      return io::forward_error(std::move(good));
    }
    if (explicit_generator) return stream;
    const std::uint64_t drawn = stream.next64_high_first();
    if (shuffles_with_stream()) return stream;
    return Mt19937(static_cast<std::uint32_t>(drawn));
  }
};

[[nodiscard]] RandomSampler read_sampler(Parameters& parameters, std::uint64_t n) {
  RandomSampler sampler{.n = n};
  sampler.version = read_torch_version(parameters);
  sampler.replacement = parameters.flag("replacement", false);
  sampler.num_samples = parameters.integer("num_samples", n, {.least = 1, .most = std::uint64_t{1} << 32});
  if (sampler.version < TorchVersion{.major = 1, .minor = 7}) parameters.fail("torch must be 1.7 or later");
  if (sampler.num_samples != n && !sampler.replacement && !sampler.version.draws_tail_permutation()) {
    parameters.fail("num_samples without replacement needs torch 1.12 or later");
  }
  return sampler;
}

// Batches per epoch that the training loop takes; sets how many elements are asked for.
[[nodiscard]] std::uint64_t read_batches(Parameters& parameters, const WorkerLayout& workers, bool drop_last,
                                         RandomRun& run) {
  const std::uint64_t length = run.sampler.num_samples;
  const std::uint64_t batches = drop_last ? length / workers.batch : ceil_div(length, workers.batch);
  run.asked = run.sampler.to_the_end();
  const std::optional<std::uint64_t> stop = parameters.optional_integer("stop", {.least = 1});
  if (!stop || *stop >= batches + 1) return batches;
  const std::uint64_t batches_asked = *stop + std::uint64_t{workers.prefetch_factor} * workers.workers;
  const bool last_is_partial = length % workers.batch != 0 && !drop_last;
  // A full batch ends with its last element; only a partial one, or one more, finds the end of the sampler.
  if (batches_asked < batches + (last_is_partial ? 0 : 1)) run.asked = batches_asked * workers.batch;
  return *stop;
}

}  // namespace

OrderResult make_torch_random(Parameters& parameters, const OrderInput& input) {
  RandomRun run{.sampler = read_sampler(parameters, input.sample_count)};
  run.seed = parameters.seed("seed", 0).low32();
  run.explicit_generator = parameters.choice("generator", {"default", "explicit"}) == 1;
  run.loader = parameters.flag("loader", true);
  run.persistent = parameters.flag("persistent", false);
  run.offset = parameters.integer("offset", 0);
  run.stride = parameters.optional_integer("stride");
  const bool drop_last = parameters.flag("drop_last", false);
  const WorkerLayout workers = read_worker_layout(parameters);
  const std::uint64_t batches = read_batches(parameters, workers, drop_last, run);
  HEADRACE_TRY_DO(parameters.finish());

  const std::uint64_t length = input.sample_count == 0 ? 0 : run.sampler.num_samples;
  const auto draw = [run](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Result<Mt19937> generator = run.generator(epoch);
    if (!generator) return io::forward_error(std::move(generator));
    return run.sampler.pass(*generator, count);
  };
  return make_sharded_order(parameters.spec(), {.list_length = length,
                                                .draw = draw,
                                                .shards = {.total = std::min(length, batches * workers.batch)},
                                                .workers = workers});
}

}  // namespace headrace::cache
