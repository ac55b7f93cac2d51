// SPDX-License-Identifier: Apache-2.0
// An io_uring instance set up as well as this kernel allows, with what it could not give listed in limits().
//
// Thread-safety: the thread that opened it. Ownership: the ring, its file table and its wake-up eventfd.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <liburing.h>

#include "headrace/io/result.h"
#include "headrace/io/uring_engine.h"

namespace headrace::io::internal {

struct RingOptions {
  unsigned entries = 0;           // submission queue entries
  unsigned file_slots = 0;        // size of the table of registered files, empty at first
  unsigned worker_count_max = 0;  // kernel threads for what cannot be done without blocking
  UringMask mask = {};
};

class Ring {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Ring>> open(const RingOptions& options);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] bool has_file_table() const { return has_file_table_; }
  [[nodiscard]] const std::vector<std::string>& limits() const { return limits_; }

  // Makes room for `count` entries, which go to the kernel together; next_sqe() gives them out.
  void reserve(unsigned count);
  [[nodiscard]] io_uring_sqe& next_sqe();
  // Submits and, unless `deadline` has passed, waits for a completion. False: the deadline passed first.
  bool enter(std::chrono::steady_clock::time_point deadline);
  void submit();
  [[nodiscard]] Status set_file(unsigned slot, int fd);  // -1 empties the slot

  template <typename Handler>
  void reap(Handler&& handle) {
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      ++count;
      handle(cqe->user_data, cqe->res);
    }
    io_uring_cq_advance(&ring_, count);
  }

 private:
  Ring() = default;
  [[nodiscard]] Status set_up(const RingOptions& options);
  [[nodiscard]] Status check_operations();
  void set_up_file_table(const RingOptions& options);

  io_uring ring_ = {};
  bool open_ = false;
  bool has_file_table_ = false;
  std::vector<std::string> limits_;
};

}  // namespace headrace::io::internal
