// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/engine.h"

#include <string>
#include <string_view>
#include <utility>

#include "headrace/io/environment.h"
#include "headrace/io/internal/perform.h"
#include "headrace/io/internal/transfer.h"
#include "headrace/io/log.h"
#include "headrace/io/pread_engine.h"
#include "headrace/io/uring_engine.h"

namespace headrace::io {
namespace {

using Kind = EngineOptions::Kind;

Result<Kind> wanted_kind(const EngineOptions& options) {
  if (options.kind != Kind::kAutomatic) return options.kind;
  const char* value = environment("HEADRACE_ENGINE");
  const std::string_view name = value != nullptr ? value : "";
  if (name.empty()) return Kind::kAutomatic;
  if (name == "uring") return Kind::kUring;
  if (name == "pread") return Kind::kPread;
  return make_error(ErrorCode::kInvalidArgument, "HEADRACE_ENGINE=" + std::string(name) + " (uring or pread)");
}

}  // namespace

Operation Operation::read_path(int dir_fd, const char* path, std::uint64_t offset, std::uint64_t length,
                               Buffer buffer) {
  Operation operation = read(dir_fd, offset, length, std::move(buffer));
  operation.kind = Kind::kReadPath;
  operation.path = path;
  return operation;
}

Operation Operation::read(int fd, std::uint64_t offset, std::uint64_t length, Buffer buffer) {
  Operation operation;
  operation.kind = Kind::kRead;
  operation.fd = fd;
  operation.offset_bytes = offset;
  operation.length_bytes = length;
  operation.buffer = std::move(buffer);
  return operation;
}

Operation Operation::write(int fd, std::uint64_t offset, Buffer buffer) {
  const std::uint64_t length = buffer.size();
  Operation operation = read(fd, offset, length, std::move(buffer));
  operation.kind = Kind::kWrite;
  return operation;
}

Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options) {
  HEADRACE_TRY(kind, wanted_kind(options));
  if (kind == Kind::kPread) return open_pread_engine(options, "");

  Result<std::unique_ptr<Engine>> uring = open_uring_engine(options);
  if (uring) return uring;
  const std::string reason = uring.error().message();
  if (kind == Kind::kUring) return make_error(ErrorCode::kUnsupported, reason);
  log_warning("{}; reading with a thread pool instead", reason);
  return open_pread_engine(options, reason);
}

void run_here(Operation& operation) {
  internal::begin(operation);
  internal::perform(operation);
  internal::deliver(operation);
}

}  // namespace headrace::io
