// SPDX-License-Identifier: Apache-2.0
// An engine that passes everything on to another: for tests that watch or hold back a part of it.
//
//   class Watched final : public EngineAround { ... void set_rotational(bool rotational) override { ... } };
//
// Thread-safety: as Engine. Ownership: owns the engine inside.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "headrace/io/engine.h"

namespace headrace::test {

class EngineAround : public io::Engine {
 public:
  explicit EngineAround(std::unique_ptr<Engine> inner) : inner_(std::move(inner)) {}

  void submit(io::Operation& operation) override { inner_->submit(operation); }
  void wait(std::chrono::steady_clock::time_point deadline) override { inner_->wait(deadline); }
  void wake() override { inner_->wake(); }
  [[nodiscard]] std::size_t in_flight() const override { return inner_->in_flight(); }
  [[nodiscard]] std::size_t waiting() const override { return inner_->waiting(); }
  void hurry() override { inner_->hurry(); }
  [[nodiscard]] io::EngineInfo info() const override { return inner_->info(); }
  void register_file(int fd) override { inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }
  void set_rotational(bool rotational) override { inner_->set_rotational(rotational); }

 protected:
  [[nodiscard]] Engine& inner() { return *inner_; }
  [[nodiscard]] const Engine& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Engine> inner_;
};

}  // namespace headrace::test
