// SPDX-License-Identifier: Apache-2.0
// What was changed of a running mount (headrace set), for the worker that takes over when this one dies.
//
//   HEADRACE_TRY(kept, KeptSettings::make());   // in the supervisor, before it forks
//   kept.keep_pushed_bytes(bytes);              // in a worker
//   kept.pushed_bytes()                         // in its successor
//
// It lies in memory that the supervisor and all its workers share. Thread-safety: any thread, any of these processes.
// Ownership: move-only; each process unmaps its own view.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "headrace/io/result.h"

namespace headrace::cli {

class KeptSettings {
 public:
  // Errors: kSystem (no memory).
  [[nodiscard]] static io::Result<KeptSettings> make();
  ~KeptSettings();
  KeptSettings(KeptSettings&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  KeptSettings& operator=(KeptSettings&&) = delete;

  void keep_pushed_bytes(std::uint64_t bytes);
  // nullopt: it is as it was mounted.
  [[nodiscard]] std::optional<std::uint64_t> pushed_bytes() const;

 private:
  struct Page {
    std::atomic<std::uint64_t> pushed_bytes_plus_one;  // 0: not set, as the kernel hands the page out
  };
  explicit KeptSettings(Page* page) : page_(page) {}
  Page* page_;
};

}  // namespace headrace::cli
