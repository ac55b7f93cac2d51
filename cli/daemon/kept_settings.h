// SPDX-License-Identifier: Apache-2.0
// What was changed of a running mount (headrace set), and what it has found out, for the worker that takes over when
// this one dies; and which program the supervisor is to become (headrace upgrade).
//
//   HEADRACE_TRY(kept, KeptSettings::make());   // in the supervisor, before it forks
//   kept.keep_pushed_bytes(bytes);              // in a worker
//   kept.pushed_bytes()                         // in its successor
//
// It lies in memory that the supervisor and all its workers share. Thread-safety: any thread, any of these processes;
// the program: one writer, and the supervisor after it was told.
// Ownership: move-only; each process unmaps its own view.
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {

class KeptSettings {
 public:
  // Errors: kSystem (no memory).
  [[nodiscard]] static io::Result<KeptSettings> make();
  // The memory of the program that this one replaced.
  [[nodiscard]] static io::Result<KeptSettings> take_over(io::UniqueFd fd);
  ~KeptSettings();
  KeptSettings(KeptSettings&& other) noexcept : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}
  KeptSettings& operator=(KeptSettings&&) = delete;

  void keep_pushed_bytes(std::uint64_t bytes);
  // nullopt: it is as it was mounted.
  [[nodiscard]] std::optional<std::uint64_t> pushed_bytes() const;
  void keep_source_rate(std::uint64_t bytes_per_second);
  [[nodiscard]] std::optional<std::uint64_t> source_rate() const;
  // The words of --peers (peer_list.h). False: they are too long.
  [[nodiscard]] bool keep_peers(const std::vector<std::string>& words) { return page_->peers.keep(words); }
  // Empty: as it was mounted.
  [[nodiscard]] std::vector<std::string> peers() const { return page_->peers.words(); }
  // What `headrace order set` was given. False: they are too long, and those before are forgotten.
  [[nodiscard]] bool keep_orders(const std::vector<std::string>& specs) { return page_->orders.keep(specs); }
  // Empty: as it was mounted.
  [[nodiscard]] std::vector<std::string> orders() const { return page_->orders.words(); }
  // The order that was found in the opens: how, and then its specs, as `headrace order set` takes them. False: they
  // are too long, and those before are forgotten.
  [[nodiscard]] bool keep_found_order(const std::vector<std::string>& words) { return page_->found_order.keep(words); }
  // Empty: none is known.
  [[nodiscard]] std::vector<std::string> found_order() const { return page_->found_order.words(); }
  // False: the path is longer than paths are.
  [[nodiscard]] bool keep_program(const std::filesystem::path& program);
  [[nodiscard]] std::filesystem::path program() const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  // One that dies while it writes leaves none, and not a half.
  struct Words {
    static constexpr std::size_t kBytesMax = std::size_t{64} << 10;  // as a request on the control socket
    [[nodiscard]] bool keep(const std::vector<std::string>& all);
    [[nodiscard]] std::vector<std::string> words() const;

    std::atomic<std::uint64_t> bytes;   // 0: not set, or being written
    std::array<char, kBytesMax> lines;  // words, each ends with a line end
  };
  // Later versions add to its end.
  struct Page {
    std::atomic<std::uint64_t> pushed_bytes_plus_one;  // 0: not set, as the kernel hands the page out
    std::atomic<std::uint64_t> source_rate_plus_one;   // as above
    std::array<char, PATH_MAX> program;                // ends with a zero
    Words peers;
    Words orders;
    Words found_order;
  };
  KeptSettings(io::UniqueFd fd, Page* page) : fd_(std::move(fd)), page_(page) {}
  io::UniqueFd fd_;
  Page* page_;
};

}  // namespace headrace::cli
