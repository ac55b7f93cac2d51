// SPDX-License-Identifier: Apache-2.0
// An engine that makes faults on purpose, around any other engine. Everything it does follows from its seed.
//
//   auto engine = open_fault_engine(std::move(*open_engine({})), {.seed = 7, .error_one_in = 20, .reorder = true});
//   ... when a test fails, print the seed: the same seed and the same calls give the same faults
//
// Thread-safety: as Engine. Ownership: owns the engine inside.
#pragma once

#include <cstdint>
#include <memory>

#include "headrace/io/engine.h"

namespace headrace::test {

// Each `_one_in` is the chance per operation: 0 never, 1 always, N one in N.
struct FaultOptions {
  std::uint64_t seed = 1;
  std::uint64_t after_operations = 0;  // the first ones are left alone
  unsigned error_one_in = 0;           // any kind: EIO, nothing read or written
  unsigned read_error_one_in = 0;      // reads: EIO
  unsigned short_read_one_in = 0;      // reads: ends early, as if the file did
  unsigned bit_flip_one_in = 0;        // reads: one bit of the content is wrong
  unsigned no_space_one_in = 0;        // writes: ENOSPC
  unsigned lost_write_one_in = 0;      // writes: reported as done, never made
  unsigned delay_one_in = 0;           // any kind: held back for 1 to 8 calls of wait()
  bool reorder = false;                // completions of one wait() run in random order
};

// What was done, for tests that expect an exact number.
struct FaultCounts {
  std::uint64_t errors = 0;
  std::uint64_t short_reads = 0;
  std::uint64_t bit_flips = 0;
  std::uint64_t no_space = 0;
  std::uint64_t lost_writes = 0;
  std::uint64_t delays = 0;
};

class FaultEngine : public io::Engine {
 public:
  [[nodiscard]] virtual const FaultCounts& counts() const = 0;
  // For the operations submitted from now on.
  virtual void set_options(const FaultOptions& options) = 0;
};

[[nodiscard]] std::unique_ptr<FaultEngine> open_fault_engine(std::unique_ptr<io::Engine> inner,
                                                             const FaultOptions& options);

}  // namespace headrace::test
