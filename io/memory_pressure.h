// SPDX-License-Identifier: Apache-2.0
// Whether somebody waits for memory, and who: our own control group, or anybody on the machine.
//
//   MemoryPressure pressure;
//   ... once a second: if (pressure.look().group_waits) ...;
//
// The kernel counts the time that tasks wait for memory (PSI, Documentation/accounting/psi.rst): for the machine since
// Linux 4.20, and for each control group of version 2. The count of the machine rises as well where any group meets its
// own limit, which says nothing about the memory that is left for us.
//
// Thread-safety: none; one owner.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "headrace/io/control_group.h"

namespace headrace::io {

// Another place is for tests.
struct MemoryPressurePaths {
  ControlGroupPaths groups = {};
  std::filesystem::path machine = "/proc/pressure/memory";
  std::filesystem::path memory = "/proc/meminfo";
};

class MemoryPressure {
 public:
  explicit MemoryPressure(const MemoryPressurePaths& paths = {});

  struct Signs {
    bool group_waits = false;           // some task of our control group did, for a tenth of the last two looks
    bool machine_waits = false;         // some task of the machine did
    std::uint64_t available_bytes = 0;  // what the machine could give away, its page cache included (MemAvailable)
    bool operator==(const Signs&) const = default;
  };
  // To be called once a second.
  [[nodiscard]] Signs look();
  // False: this kernel does not count, and look() never says that somebody waits.
  [[nodiscard]] bool can_tell() const { return can_tell_; }

 private:
  // What one file has counted, at the last two looks.
  struct Count {
    std::filesystem::path file;  // empty: there is none
    std::array<std::chrono::microseconds, 2> before = {};
  };
  [[nodiscard]] static bool waits(Count& count);

  Count group_;
  Count machine_;
  std::filesystem::path memory_;
  bool can_tell_;
};

// Bytes that the machine could give to programs without swapping; nullopt: it does not say.
[[nodiscard]] std::optional<std::uint64_t> available_memory_bytes(
    const std::filesystem::path& memory = MemoryPressurePaths{}.memory);

}  // namespace headrace::io
