// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/request_log.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>
#include <linux/fuse.h>
#include <sys/mman.h>

#include "headrace/io/unique_fd.h"

namespace headrace::fuse::request_log_test {
namespace {

using Role = RequestLog::Role;

// The memory of one mount, and its processes, which here are one.
class Processes {
 public:
  Processes() : fd_(::memfd_create("requests", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(fd_.get(), static_cast<off_t>(RequestLog::memory_bytes())) == 0);
  }
  std::shared_ptr<RequestLog> start(Role role) {
    auto log = RequestLog::open(fd_.get(), 0);
    REQUIRE(log.has_value());
    (*log)->begin(role);
    return *log;
  }

 private:
  const io::UniqueFd fd_;
};

// As the kernel does it.
void hand_out(RequestLog::Slot& slot, std::uint64_t unique, std::uint32_t bytes = sizeof(fuse_in_header)) {
  const fuse_in_header header = {.len = bytes, .opcode = FUSE_GETATTR, .unique = unique};
  std::memcpy(slot.request.data(), &header, sizeof(header));
}

std::span<const std::byte> copy_of(const RequestLog::Slot& slot, std::size_t bytes = sizeof(fuse_in_header)) {
  return std::span(slot.request).first(bytes);
}

void read_request(RequestLog& log, std::uint64_t unique) {
  RequestLog::Slot* slot = log.claim();
  REQUIRE(slot != nullptr);
  hand_out(*slot, unique);
  REQUIRE(log.keep(*slot, copy_of(*slot)));
}

std::vector<std::uint64_t> numbers(const std::vector<std::vector<std::byte>>& requests) {
  std::vector<std::uint64_t> found;
  for (const auto& request : requests) {
    fuse_in_header header = {};
    std::memcpy(&header, request.data(), sizeof(header));
    found.push_back(header.unique);
  }
  std::ranges::sort(found);
  return found;
}

using Numbers = std::vector<std::uint64_t>;

TEST_CASE("a worker takes over what the one before it has read and not answered, once") {
  Processes processes;
  const auto first = processes.start(Role::kWorker);
  for (const std::uint64_t unique : {2, 4, 6, 8}) read_request(*first, unique);
  first->on_answered(4);
  RequestLog::Slot* unseen = first->claim();  // killed before it knew that it had read a request
  hand_out(*unseen, 10);
  static_cast<void>(first->claim());  // and while a thread waited for one

  const auto second = processes.start(Role::kWorker);
  CHECK(numbers(second->take_over()) == Numbers{2, 6, 8, 10});
  CHECK(second->take_over().empty());
  second->on_answered(6);
  const auto third = processes.start(Role::kWorker);
  CHECK(numbers(third->take_over()) == Numbers{2, 8, 10});
}

TEST_CASE("slots come back when requests are answered, and those of a process that died with its successor") {
  Processes processes;
  const auto first = processes.start(Role::kWorker);
  RequestLog::Slot* const slot = first->claim();
  first->give_back(*slot);
  CHECK(first->claim() == slot);
  for (std::uint64_t i = 1; i < RequestLog::kSlotCount; ++i) static_cast<void>(first->claim());
  CHECK(first->claim() == nullptr);

  const auto second = processes.start(Role::kWorker);
  CHECK(second->claim() == nullptr);
  CHECK(second->take_over().empty());
  for (std::uint64_t i = 0; i < RequestLog::kSlotCount; ++i) read_request(*second, 2 * i + 2);
  CHECK(second->claim() == nullptr);
  second->on_answered(2000);
  CHECK(second->claim() != nullptr);
}

TEST_CASE("a worker leaves the stand-in what that has read until it has gone, and is told then") {
  Processes processes;
  const auto stopped = processes.start(Role::kWorker);
  read_request(*stopped, 2);
  const auto stand_in = processes.start(Role::kStandIn);
  CHECK(numbers(stand_in->take_over()) == Numbers{2});
  read_request(*stand_in, 4);
  CHECK(stopped->take_over().empty());  // it goes on, and answers beside the stand-in
  stopped->on_answered(2);              // both have: the slot is the stand-in's to give back
  CHECK(numbers(processes.start(Role::kWorker)->take_over()).empty());

  stopped->on_stand_in_gone();
  CHECK(numbers(stopped->take_over()) == Numbers{2, 4});
}

TEST_CASE("a stand-in leaves empty slots to a worker that is stopped") {
  Processes processes;
  const auto stopped = processes.start(Role::kWorker);
  RequestLog::Slot* const slot = stopped->claim();
  const auto stand_in = processes.start(Role::kStandIn);
  CHECK(stand_in->take_over().empty());
  CHECK(stand_in->claim() != slot);
  hand_out(*slot, 2);  // it goes on
  REQUIRE(stopped->keep(*slot, copy_of(*slot)));
  stopped->on_answered(2);
  CHECK(stopped->claim() == slot);
}

TEST_CASE("a late answer gives no slot back that another request has by now") {
  Processes processes;
  const auto stopped = processes.start(Role::kWorker);
  RequestLog::Slot* const idle = stopped->claim();
  read_request(*stopped, 2);
  const auto stand_in = processes.start(Role::kStandIn);
  CHECK(numbers(stand_in->take_over()) == Numbers{2});
  stand_in->on_answered(2);
  stopped->give_back(*idle);
  CHECK(stopped->claim() == idle);
  RequestLog::Slot* const second = stopped->claim();
  stopped->on_answered(2);
  CHECK(stopped->claim() != second);
}

TEST_CASE("what was taken over before its reader knew of it is not answered by that as well") {
  Processes processes;
  const auto stopped = processes.start(Role::kWorker);
  RequestLog::Slot* const slot = stopped->claim();
  hand_out(*slot, 2);
  const auto stand_in = processes.start(Role::kStandIn);
  CHECK(numbers(stand_in->take_over()) == Numbers{2});
  CHECK_FALSE(stopped->keep(*slot, copy_of(*slot)));
  stand_in->on_answered(2);
  hand_out(*stand_in->claim(), 4);  // the same slot
  CHECK_FALSE(stopped->keep(*slot, copy_of(*slot)));
}

TEST_CASE("of a request that is longer than a slot the beginning is left") {
  Processes processes;
  const auto first = processes.start(Role::kWorker);
  RequestLog::Slot* slot = first->claim();
  hand_out(*slot, 2, 8000);
  static_cast<void>(first->keep(*slot, copy_of(*slot)));  // the rest of it lies elsewhere
  const auto left = processes.start(Role::kWorker)->take_over();
  REQUIRE(left.size() == 1);
  CHECK(left[0].size() == RequestLog::kRequestBytes);
}

}  // namespace
}  // namespace headrace::fuse::request_log_test
