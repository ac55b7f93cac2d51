// SPDX-License-Identifier: Apache-2.0
#include "support/fault_engine.h"

#include <algorithm>
#include <cerrno>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headrace::test {
namespace {

using io::Engine;
using io::EngineInfo;
using io::Operation;
using io::Result;
using io::system_error;
using Kind = Operation::Kind;
using TimePoint = std::chrono::steady_clock::time_point;

// Long enough that others overtake a held operation several times; short enough that it does not outlast a test.
constexpr unsigned kDelayRoundsMax = 8;

enum class Fault : std::uint8_t { kNone, kError, kShortRead, kBitFlip, kNoSpace, kLostWrite };

bool is_read(const Operation& operation) {
  return operation.kind == Kind::kReadPath || operation.kind == Kind::kRead;
}

class FaultEngineImpl final : public FaultEngine {
 public:
  FaultEngineImpl(std::unique_ptr<Engine> inner, const FaultOptions& options)
      : inner_(std::move(inner)), options_(options), random_(options.seed) {}
  ~FaultEngineImpl() override;

  void submit(Operation& operation) override;
  void wait(TimePoint deadline) override;
  void wake() override { inner_->wake(); }
  [[nodiscard]] std::size_t in_flight() const override { return tickets_.size(); }
  [[nodiscard]] std::size_t waiting() const override { return inner_->waiting(); }
  void hurry() override { inner_->hurry(); }
  [[nodiscard]] EngineInfo info() const override;
  void register_file(int fd) override { inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }
  void set_rotational(bool rotational) override { inner_->set_rotational(rotational); }
  [[nodiscard]] const FaultCounts& counts() const override { return counts_; }
  void set_options(const FaultOptions& options) override { options_ = options; }

 private:
  // What becomes of one operation, and the caller's callback that was exchanged for ours.
  struct Ticket {
    FaultEngineImpl* engine;
    Operation* operation;
    void (*on_complete)(Operation&, Result<std::uint64_t>);
    void* context;
    Fault fault;
    unsigned hold_rounds;  // calls of wait() before it starts
    Result<std::uint64_t> result = 0;
  };

  [[nodiscard]] bool happens(unsigned one_in);
  [[nodiscard]] Fault choose_fault(const Operation& operation);
  void start(Ticket& ticket);
  void release_held();
  void complete(Ticket& ticket, Result<std::uint64_t> result);
  void run_completed();
  [[nodiscard]] Result<std::uint64_t> spoil(Ticket& ticket, std::uint64_t bytes);

  std::unique_ptr<Engine> inner_;
  FaultOptions options_;
  FaultCounts counts_;
  std::mt19937_64 random_;
  std::uint64_t submitted_ = 0;
  bool closing_ = false;
  std::unordered_map<Operation*, std::unique_ptr<Ticket>> tickets_;
  std::vector<Ticket*> held_;
  std::vector<Ticket*> completed_;
};

FaultEngineImpl::~FaultEngineImpl() {
  closing_ = true;
  for (Ticket* const ticket : std::exchange(held_, {})) complete(*ticket, system_error(ECANCELED, "fault engine"));
  inner_.reset();
  while (!completed_.empty()) run_completed();
}

bool FaultEngineImpl::happens(unsigned one_in) {
  return one_in != 0 && random_() % one_in == 0;
}

// Draws a number for every kind of fault, also for those that cannot happen, so that the sequence depends on the seed
// alone.
Fault FaultEngineImpl::choose_fault(const Operation& operation) {
  const bool read = is_read(operation);
  const bool write = operation.kind == Kind::kWrite;
  const bool error = happens(options_.error_one_in);
  const bool short_read = happens(options_.short_read_one_in);
  const bool bit_flip = happens(options_.bit_flip_one_in);
  const bool no_space = happens(options_.no_space_one_in);
  const bool lost_write = happens(options_.lost_write_one_in);
  const bool read_error = happens(options_.read_error_one_in);
  if (submitted_ <= options_.after_operations) return Fault::kNone;
  if (error || (read && read_error)) return Fault::kError;
  if (read && short_read) return Fault::kShortRead;
  if (read && bit_flip) return Fault::kBitFlip;
  if (write && no_space) return Fault::kNoSpace;
  if (write && lost_write) return Fault::kLostWrite;
  return Fault::kNone;
}

void FaultEngineImpl::submit(Operation& operation) {
  ++submitted_;
  const Fault fault = choose_fault(operation);
  const bool delay = happens(options_.delay_one_in) && submitted_ > options_.after_operations;
  const unsigned rounds = delay ? 1 + static_cast<unsigned>(random_() % kDelayRoundsMax) : 0;
  auto made =
      std::make_unique<Ticket>(Ticket{this, &operation, operation.on_complete, operation.context, fault, rounds});
  Ticket& ticket = *made;
  tickets_.emplace(&operation, std::move(made));
  if (closing_) return complete(ticket, system_error(ECANCELED, "fault engine"));
  if (!delay) return start(ticket);
  ++counts_.delays;
  held_.push_back(&ticket);
}

void FaultEngineImpl::start(Ticket& ticket) {
  switch (ticket.fault) {
    case Fault::kError:
      ++counts_.errors;
      return complete(ticket, system_error(EIO, "injected fault"));
    case Fault::kNoSpace:
      ++counts_.no_space;
      return complete(ticket, system_error(ENOSPC, "injected fault"));
    case Fault::kLostWrite:
      ++counts_.lost_writes;
      return complete(ticket, ticket.operation->length_bytes);
    case Fault::kNone:
    case Fault::kShortRead:
    case Fault::kBitFlip:
      break;
  }
  ticket.operation->context = &ticket;
  ticket.operation->on_complete = [](Operation& self, Result<std::uint64_t> result) {
    auto& mine = *static_cast<Ticket*>(self.context);
    mine.engine->complete(mine, std::move(result));
  };
  inner_->submit(*ticket.operation);
}

void FaultEngineImpl::complete(Ticket& ticket, Result<std::uint64_t> result) {
  ticket.result = result ? spoil(ticket, *result) : std::move(result);
  completed_.push_back(&ticket);
}

Result<std::uint64_t> FaultEngineImpl::spoil(Ticket& ticket, std::uint64_t bytes) {
  Operation& operation = *ticket.operation;
  if (bytes == 0) return bytes;
  if (ticket.fault == Fault::kShortRead) {
    ++counts_.short_reads;
    const std::uint64_t kept = random_() % bytes;
    operation.buffer.set_size(operation.skip_bytes + kept);
    return kept;
  }
  if (ticket.fault == Fault::kBitFlip) {
    ++counts_.bit_flips;
    const std::uint64_t bit = random_() % (bytes * 8);
    operation.data()[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  return bytes;
}

void FaultEngineImpl::release_held() {
  for (Ticket* const ticket : std::exchange(held_, {})) {
    if (--ticket->hold_rounds > 0) {
      held_.push_back(ticket);
    } else {
      start(*ticket);
    }
  }
}

// Calls of wait() release what is held back, not time. So this does not sleep while something is held.
void FaultEngineImpl::wait(TimePoint deadline) {
  release_held();
  inner_->wait(held_.empty() && completed_.empty() ? deadline : TimePoint::min());
  run_completed();
}

void FaultEngineImpl::run_completed() {
  std::vector<Ticket*> completed = std::exchange(completed_, {});
  if (options_.reorder) std::ranges::shuffle(completed, random_);
  for (Ticket* const ticket : completed) {
    auto owned = std::move(tickets_.extract(ticket->operation).mapped());
    ticket->operation->on_complete = ticket->on_complete;
    ticket->operation->context = ticket->context;
    ticket->on_complete(*ticket->operation, std::move(ticket->result));
  }
}

EngineInfo FaultEngineImpl::info() const {
  EngineInfo info = inner_->info();
  info.name = "fault(" + info.name + ")";
  return info;
}

}  // namespace

std::unique_ptr<FaultEngine> open_fault_engine(std::unique_ptr<Engine> inner, const FaultOptions& options) {
  return std::make_unique<FaultEngineImpl>(std::move(inner), options);
}

}  // namespace headrace::test
