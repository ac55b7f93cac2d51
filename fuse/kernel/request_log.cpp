// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/request_log.h"

#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include <linux/fuse.h>
#include <sys/mman.h>

#include "headrace/io/log.h"

namespace headrace::fuse {

// Zero at first: nobody has a slot, and no session has begun.
struct RequestLog::Memory {
  std::atomic<std::uint32_t> sessions;  // that have begun
  std::atomic<std::uint32_t> stand_in;  // the session of the one that answers now; 0: none
  std::atomic<std::size_t> used;        // slots from here on were never used
  std::array<Slot, kSlotCount> slots;
};

namespace {

// In Slot::owner, beside the session: the request was answered, and its number is about to be taken out.
constexpr std::uint32_t kEmptying = 1U << 31;

const fuse_in_header& header_of(const RequestLog::Slot& slot) {
  return *reinterpret_cast<const fuse_in_header*>(slot.request.data());
}

// The kernel writes it, and whoever takes over looks at it. No request has the number 0.
std::atomic_ref<std::uint64_t> unique_of(RequestLog::Slot& slot) {
  return std::atomic_ref(reinterpret_cast<fuse_in_header*>(slot.request.data())->unique);
}

}  // namespace

std::size_t RequestLog::memory_bytes() {
  return sizeof(Memory);
}

io::Result<std::shared_ptr<RequestLog>> RequestLog::open(int fd, std::size_t offset) {
  static_assert(std::is_trivially_destructible_v<Memory> && std::atomic<std::size_t>::is_always_lock_free);
  void* memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return io::system_error(errno, "memory for the requests of the mount");
  std::shared_ptr<RequestLog> log(new RequestLog(static_cast<Memory*>(memory)));
  if (!log->hint_.valid()) return io::system_error(errno, "eventfd");
  return log;
}

RequestLog::~RequestLog() {
  ::munmap(memory_, sizeof(Memory));
}

void RequestLog::begin(Role role) {
  role_ = role;
  session_ = memory_->sessions.fetch_add(1) + 1;
  if (role == Role::kStandIn) memory_->stand_in.store(session_);
}

// A slot that is taken in vain, by a process that was killed right here, is given back by the next worker.
RequestLog::Slot* RequestLog::claim() {
  io::MutexLock lock(mutex_);
  for (std::size_t i = 0; i < kSlotCount; ++i) {
    const std::size_t at = (maybe_free_ + i) % kSlotCount;
    Slot& slot = memory_->slots[at];
    std::uint32_t nobody = 0;
    if (slot.owner.load(std::memory_order_relaxed) != 0 || !slot.owner.compare_exchange_strong(nobody, session_))
      continue;
    maybe_free_ = at + 1;
    std::size_t used = memory_->used.load();
    while (used <= at && !memory_->used.compare_exchange_weak(used, at + 1)) continue;
    return &slot;
  }
  if (!std::exchange(was_full_, true))
    io::log_warning("{} requests wait for an answer; more of them would be lost with the process", kSlotCount);
  return nullptr;
}

// A process that is stopped stops here: between reading a request and knowing of it.
bool RequestLog::keep(Slot& slot, std::span<const std::byte> request) {
  const auto& header = *reinterpret_cast<const fuse_in_header*>(request.data());
  io::MutexLock lock(mutex_);
  if (slot.owner.load() != session_ || unique_of(slot).load() != header.unique || header.len != request.size())
    return false;
  slot_of_[header.unique] = &slot;
  return true;
}

void RequestLog::give_back(Slot& slot) {
  io::MutexLock lock(mutex_);
  release(slot);
}

// Another process may have taken the request over and answered it, and this one may have claimed the slot again.
void RequestLog::on_answered(std::uint64_t unique) {
  io::MutexLock lock(mutex_);
  const auto kept = slot_of_.find(unique);
  if (kept == slot_of_.end()) return;
  Slot& slot = *kept->second;
  slot_of_.erase(kept);
  if (unique_of(slot).load() == unique) release(slot);
}

std::optional<pid_t> RequestLog::asker(std::uint64_t unique) {
  io::MutexLock lock(mutex_);
  const auto kept = slot_of_.find(unique);
  if (kept == slot_of_.end() || unique_of(*kept->second).load() != unique) return std::nullopt;
  return static_cast<pid_t>(header_of(*kept->second).pid);
}

// Not if another process has taken the request over meanwhile.
void RequestLog::release(Slot& slot) {
  std::uint32_t own = session_;
  if (!slot.owner.compare_exchange_strong(own, session_ | kEmptying)) return;
  unique_of(slot).store(0);
  slot.owner.store(0);
  maybe_free_ = std::min(maybe_free_, static_cast<std::size_t>(&slot - memory_->slots.data()));
}

std::vector<std::vector<std::byte>> RequestLog::take_over() {
  std::vector<std::vector<std::byte>> requests;
  const std::size_t used = memory_->used.load();
  for (Slot& slot : std::span(memory_->slots).first(used)) {
    const std::uint32_t owner = slot.owner.load();
    const std::uint32_t session = owner & ~kEmptying;
    if (session == 0 || session == session_) continue;
    if (role_ == Role::kWorker && session == memory_->stand_in.load()) continue;  // it answers what it has read
    std::vector<std::byte> request;
    if (take(slot, owner, request)) requests.push_back(std::move(request));
  }
  if (!requests.empty())
    io::log_info("{} requests of the mount were not answered, and are answered now", requests.size());
  return requests;
}

// An empty slot is left to a process that may be stopped, and go on.
bool RequestLog::take(Slot& slot, std::uint32_t owner, std::vector<std::byte>& request) {
  io::MutexLock lock(mutex_);
  const bool is_emptied = (owner & kEmptying) != 0;  // its request was answered
  const std::uint64_t unique = is_emptied ? 0 : unique_of(slot).load();
  if (unique == 0) {
    if (role_ == Role::kStandIn) return false;
    unique_of(slot).store(0);
    slot.owner.compare_exchange_strong(owner, 0);
    return false;
  }
  std::uint32_t before = owner;
  if (!slot.owner.compare_exchange_strong(before, session_)) return false;
  const std::size_t bytes = std::min<std::size_t>(header_of(slot).len, kRequestBytes);
  request.assign(slot.request.begin(), slot.request.begin() + static_cast<std::ptrdiff_t>(bytes));
  if (unique_of(slot).load() != unique) {  // its owner goes on just now, and has read another one
    slot.owner.store(owner);
    return false;
  }
  slot_of_[unique] = &slot;
  return true;
}

void RequestLog::on_stand_in_gone() {
  memory_->stand_in.store(0);
  hint_.set();
}

}  // namespace headrace::fuse
