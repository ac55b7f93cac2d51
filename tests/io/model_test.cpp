// SPDX-License-Identifier: Apache-2.0
// Random sequences of operations and faults against every engine, checked against a model: the file contents that
// pread(2) would see. HEADRACE_SEED=n replays a failure, HEADRACE_MODEL_OPERATIONS sets the length.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/engine.h"

#include "io/engines.h"
#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace model_test {

using namespace headrace::io;
using namespace headrace::test;
using Clock = std::chrono::steady_clock;

namespace {

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

constexpr std::size_t kBlock = kBufferAlignment;
constexpr std::size_t kBlocks = 64;  // of the file that is written

class Model {
 public:
  Model(Engine& engine, std::uint64_t seed, bool clean)
      : engine_(engine), random_(seed), clean_(clean), dir_(folder_.path()) {
    for (const std::size_t bytes : {0, 1, 4095, 4096, 4097, 70'000}) {
      files_.push_back({"sub/" + std::to_string(bytes), std::string(as_text(pattern_bytes(bytes, bytes + 1)))});
      folder_.write(files_.back().name, files_.back().content);
    }
    const std::string zeros(kBlocks * kBlock, '\0');
    const auto path = folder_.write("written", zeros);
    buffered_ = std::make_unique<DirFd>(path, O_RDWR);
    direct_ = std::make_unique<DirFd>(path, O_RDWR | O_DIRECT);
    engine_.register_file(buffered_->get());
  }
  ~Model() { engine_.unregister_file(buffered_->get()); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void run(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      start_one();
      if (below(4) == 0) engine_.wait(Clock::now() + std::chrono::microseconds(below(200)));
      check_finished();
    }
    drain(engine_);
    check_finished();
    CHECK(running_.empty());
  }

 private:
  struct File {
    std::string name;
    std::string content;
  };
  struct Step {
    explicit Step(Operation operation) : tracked(std::move(operation)) {}
    Tracked tracked;
    std::string expected;    // reads of files that are not written
    bool must_miss = false;  // a path that does not exist
    int written_block = -1;  // reads and writes of the file that is written
    std::string content;     // what is written there
  };
  struct Block {
    std::vector<std::string> possible = {std::string(kBlock, '\0')};  // one unless a write failed or was lost
    bool busy = false;
  };

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  CacheMode any_mode() { return static_cast<CacheMode>(below(2)); }

  void start_one() {
    std::unique_ptr<Step> step;
    switch (below(5)) {
      case 0:
        step = write_block();
        break;
      case 1:
        step = read_block();
        break;
      case 2:
        step = std::make_unique<Step>(Operation::read_path(dir_.get(), "sub/none", 0, 10, buffer_for(0, 10)));
        step->must_miss = true;
        break;
      default:
        step = read_path();
    }
    engine_.submit(step->tracked.operation);
    running_.push_back(std::move(step));
  }

  std::unique_ptr<Step> read_path() {
    const File& file = files_[below(files_.size())];
    const std::uint64_t offset = below(2) == 0 ? 0 : below(file.content.size() + 100);
    const std::uint64_t length = below(2) == 0 ? file.content.size() : below(9000);
    auto step = std::make_unique<Step>(
        Operation::read_path(dir_.get(), file.name.c_str(), offset, length, buffer_for(offset, length)));
    step->tracked.operation.cache_mode = any_mode();
    if (offset < file.content.size()) step->expected = file.content.substr(offset, length);
    return step;
  }

  std::unique_ptr<Step> write_block() {
    const auto number = below(kBlocks);
    if (blocks_[number].busy) return read_path();
    blocks_[number].busy = true;
    std::string content(as_text(pattern_bytes(kBlock, random_())));
    Buffer buffer = buffer_for(0, kBlock);
    std::memcpy(buffer.data(), content.data(), kBlock);
    buffer.set_size(kBlock);
    const int fd = below(2) == 0 ? buffered_->get() : direct_->get();
    auto step = std::make_unique<Step>(Operation::write(fd, number * kBlock, std::move(buffer)));
    step->written_block = static_cast<int>(number);
    step->content = std::move(content);
    return step;
  }

  std::unique_ptr<Step> read_block() {
    const auto number = below(kBlocks);
    if (blocks_[number].busy) return read_path();
    blocks_[number].busy = true;
    const bool direct = below(2) == 0;
    const int fd = direct ? direct_->get() : buffered_->get();
    auto step = std::make_unique<Step>(Operation::read(fd, number * kBlock, kBlock, buffer_for(0, kBlock)));
    step->tracked.operation.cache_mode = direct ? CacheMode::kDirect : CacheMode::kBuffered;
    step->written_block = static_cast<int>(number);
    return step;
  }

  void check_finished() {
    std::erase_if(running_, [this](const std::unique_ptr<Step>& step) {
      if (!step->tracked.done()) return false;
      check(*step);
      return true;
    });
  }

  void check(Step& step) {
    CHECK(step.tracked.completions == 1);
    const auto& result = *step.tracked.result;
    if (!result) CHECK((step.must_miss || !clean_));
    if (step.written_block >= 0) return check_block(step);
    if (step.must_miss) CHECK_FALSE(result);
    if (!result) return;
    const std::string text = step.tracked.text();
    if (clean_) CHECK(text == step.expected);
    CHECK(text.size() <= step.expected.size());
  }

  void check_block(Step& step) {
    Block& block = blocks_[static_cast<std::size_t>(step.written_block)];
    block.busy = false;
    const bool good = step.tracked.result->has_value();
    if (step.tracked.operation.kind == Operation::Kind::kWrite) {
      if (good && clean_) block.possible.clear();
      block.possible.push_back(step.content);
    } else if (good && clean_) {
      const bool known = std::ranges::find(block.possible, step.tracked.text()) != block.possible.end();
      CHECK(known);
    }
  }

  Engine& engine_;
  std::mt19937_64 random_;
  const bool clean_;  // without faults: contents must be right
  const TempDir folder_;
  const DirFd dir_;
  std::vector<File> files_;
  std::unique_ptr<DirFd> buffered_;
  std::unique_ptr<DirFd> direct_;
  Block blocks_[kBlocks];
  std::vector<std::unique_ptr<Step>> running_;
};

void run_model(const EngineOptions& options, const FaultOptions* faults) {
  const std::uint64_t seed = environment_number("HEADRACE_SEED", std::random_device{}());
  const std::uint64_t operations = environment_number("HEADRACE_MODEL_OPERATIONS", 1500);
  CAPTURE(seed);
  for_each_engine(options, [&](Engine& engine) { Model(engine, seed, true).run(operations); });
  if (faults == nullptr) return;
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    const std::size_t descriptors_before = open_descriptor_count();
    FaultOptions seeded = *faults;
    seeded.seed = seed;
    {
      auto engine = open_fault_engine(std::move(*engine_case.open(options)), seeded);
      Model(*engine, seed, false).run(operations);
      CHECK(engine->counts().errors > 0);
    }
    CHECK(open_descriptor_count() == descriptors_before);
  }
}

}  // namespace

TEST_CASE("random operations agree with the model, with and without faults") {
  const FaultOptions faults = {.error_one_in = 20,
                               .short_read_one_in = 20,
                               .bit_flip_one_in = 20,
                               .no_space_one_in = 20,
                               .lost_write_one_in = 20,
                               .delay_one_in = 5,
                               .reorder = true};
  run_model({.queue_depth_max = 16}, &faults);
}

TEST_CASE("random operations agree with the model when only one may be in flight") {
  run_model({.queue_depth_max = 1}, nullptr);
}

}  // namespace model_test
