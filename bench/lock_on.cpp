// SPDX-License-Identifier: Apache-2.0
// Replays the opens of training scripts to the order learner and prints what it needed: opens and CPU until the order
// was known, how it was found, how many of the later epochs were predicted before they began, and the share of the
// opens from then on whose sample was there, read ahead into a budget of half of the samples.
//
//   lock_on [--all-seeds] [--samples N] [--epochs E] [--only NAME] [--verbose] [--json]
//
// --json: a line per script with loader, opens, cpu_s, wall_s, epochs_predicted, epochs_later, share_pushed, found_by;
// no wall_s where the order was not found.
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/order_learner.h"
#include "headrace/io/log.h"

#include "cache/order/loader_replay.h"
#include "cache/order/replay_mount.h"

namespace {

using namespace headrace::cache;
using headrace::test::replay_epoch;
using headrace::test::ReplayLoader;
using headrace::test::ReplayMount;
using Samples = std::vector<SampleIndex>;

struct Script {
  const char* name;
  const char* spec;  // what it draws; {r} stands for the rank
  int ranks;
  ReplayLoader loader;
  bool needs_all_seeds = false;
  std::uint64_t first_epoch = 0;
};

// Default settings of the scripts, as their samplers are documented in cache/README.md.
const Script kScripts[] = {
    {"torchvision references, 2 ranks", "torch-distributed:seed=0,replicas=2,rank={}", 2, {.batch = 32, .workers = 2}},
    {"timm train.py, 8 ranks", "torch-distributed:seed=0,replicas=8,rank={}", 8, {.batch = 128, .workers = 4}},
    {"the same, resumed at epoch 57",
     "torch-distributed:seed=0,replicas=8,rank={}",
     8,
     {.batch = 128, .workers = 4},
     false,
     57},
    {"Lightning seed_everything(1234), 4 ranks",
     "torch-distributed:seed=1234,replicas=4,rank={}",
     4,
     {.batch = 64, .workers = 4}},
    {"HF Trainer, 2 ranks", "hf-trainer:replicas=2,batch=32,rank={}", 2, {.batch = 32, .workers = 2}},
    {"references --ra-sampler, 2 ranks", "ra-sampler:replicas=2,rank={}", 2, {.batch = 64, .workers = 4}},
    {"detectron2 TrainingSampler, 2 ranks", "detectron2:replicas=2,rank={}", 2, {.batch = 8, .workers = 4}},
    {"generator=manual_seed(0), 1 GPU", "torch-random:generator=explicit,seed=0", 1, {.batch = 256, .workers = 8}},
    {"manual_seed(42), nothing else drawn", "torch-random:seed=42", 1, {.batch = 64, .workers = 4}},
    {"manual_seed(0) after ResNet-50, with validation",
     "torch-random:seed=0,offset=48958824,stride=6",
     1,
     {.batch = 256, .workers = 4},
     true},
    {"shuffle=True, unseeded", "torch-random:seed=987654321987,stride=4", 1, {.batch = 256, .workers = 2}, true},
    {"DALI, current wheels", "dali", 1, {.batch = 256, .workers = 1}},
    {"FFCV RANDOM", "ffcv:seed=0", 1, {.batch = 256, .workers = 2}},
    {"np.random.seed(42), permutation", "numpy:seed=42", 1, {.batch = 32, .workers = 2}},
    {"random.seed(0), shuffle in place", "python:seed=0,cumulative=1", 1, {.batch = 32, .workers = 2}},
};

[[nodiscard]] Samples epoch_of(const Script& script, std::uint64_t n, int rank, std::uint64_t epoch) {
  const auto order =
      make_order(fmt::format(fmt::runtime(script.spec), rank), {.sample_count = n, .find_sample = nullptr});
  if (!order) throw std::runtime_error(order.error().message());
  return (*order)->epoch(epoch).value();
}

struct Outcome {
  OrderLearner::State state;
  std::string found_by = "not found";
  std::optional<double> seconds;  // from the first open until the order was known
  int predicted = 0;
  double share_pushed = 0;
};

// Whether the order known before the epoch begins has it next.
[[nodiscard]] bool predicts(const OrderLearner& learner, const Samples& opens, std::uint64_t epochs_ahead) {
  const auto lock = learner.lock();
  if (!lock || lock->known_epochs <= epochs_ahead) return false;
  const auto next = lock->order->prefix(lock->epoch + epochs_ahead, opens.size() / 8);
  if (!next) return false;
  const std::size_t window = std::min<std::size_t>(opens.size(), 64);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < window; ++i) hits += std::ranges::find(*next, opens[i]) != next->end() ? 1 : 0;
  return hits * 2 > window;
}

[[nodiscard]] Samples opens_of(const Script& script, std::uint64_t n, std::uint64_t epoch, std::mt19937& random) {
  std::vector<Samples> lists;
  for (int rank = 0; rank < script.ranks; ++rank)
    lists.push_back(epoch_of(script, n, rank, script.first_epoch + epoch));
  return replay_epoch(lists, script.loader, random);
}

[[nodiscard]] Outcome run(const Script& script, std::uint64_t n, int epochs) {
  ReplayMount mount({.samples = n, .budget_samples = n / 2, .learner = {.search_all_seeds = script.needs_all_seeds}});
  OrderLearner& learner = mount.learner();
  std::mt19937 random(1);
  Outcome outcome;
  for (int e = 0; e < epochs; ++e) {
    const Samples opens = opens_of(script, n, static_cast<std::uint64_t>(e), random);
    if (e > 0 && predicts(learner, opens, 1)) ++outcome.predicted;
    const auto began = std::chrono::steady_clock::now();
    for (const SampleIndex sample : opens) {
      mount.on_open(sample);
      if (e == 0 && !outcome.seconds && mount.opens_under_lock() > 0) {
        outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      }
    }
    if (e > 0) continue;
    outcome.state = learner.state();
    if (const auto lock = learner.lock()) outcome.found_by = lock->found_by + ": " + lock->order->spec();
  }
  outcome.share_pushed = mount.share_fetched();
  return outcome;
}

void print(const Script& script, const Outcome& outcome, int later_epochs, bool as_json) {
  if (as_json) {
    nlohmann::json row = {{"loader", script.name},
                          {"opens", outcome.state.opens_to_lock},
                          {"cpu_s", outcome.state.search_cpu_seconds},
                          {"epochs_predicted", outcome.predicted},
                          {"epochs_later", later_epochs},
                          {"share_pushed", outcome.share_pushed},
                          {"found_by", outcome.found_by}};
    if (outcome.seconds) row["wall_s"] = *outcome.seconds;
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:<48} {:>6} {:>9.1f} {:>9.2f} {:>7}/{} {:>7.4f}  {}\n", script.name, outcome.state.opens_to_lock,
               outcome.state.search_cpu_seconds * 1e3, outcome.seconds.value_or(-1), outcome.predicted, later_epochs,
               outcome.share_pushed, outcome.found_by);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the order learner needs to know the order of training scripts");
  bool all_seeds = false;
  std::uint64_t n = 50'000;
  int epochs = 4;
  app.add_flag("--all-seeds", all_seeds, "also the scripts that need the search through 2^32 seeds (minutes each)");
  app.add_flag_callback(
      "--verbose", [] { headrace::io::set_log_level(headrace::io::LogLevel::kInfo); }, "log what the learner finds");
  app.add_option("--samples", n, "samples of the data set")->check(CLI::Range(4000, 10'000'000));
  std::string only;
  app.add_option("--only", only, "scripts whose name holds this");
  app.add_option("--epochs", epochs, "epochs to replay")->check(CLI::Range(2, 100));
  bool as_json = false;
  app.add_flag("--json", as_json, "a JSON object per line");
  CLI11_PARSE(app, argc, argv);
  if (!as_json) {
    fmt::print("{} samples, {} epochs\n{:<48} {:>6} {:>9} {:>9} {:>9} {:>7}  found by\n", n, epochs, "script", "opens",
               "CPU ms", "wall s", "predicted", "pushed");
  }
  for (const Script& script : kScripts) {
    if (script.needs_all_seeds && !all_seeds) continue;
    if (std::string_view(script.name).find(only) == std::string_view::npos) continue;
    print(script, run(script, n, epochs), epochs - 1, as_json);
  }
  return 0;
}
