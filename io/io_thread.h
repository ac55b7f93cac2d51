// SPDX-License-Identifier: Apache-2.0
// A thread that owns one Engine and drives it; operations reach it from any thread.
//
//   auto thread = IoThread::start({.name = "hr-source"});
//   (*thread)->submit(operation);   // on_complete runs on that thread
//
// Thread-safety: every function from any thread. Destruction is stop(); neither may happen on the thread itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "headrace/io/engine.h"

namespace headrace::io {

struct IoThreadOptions {
  std::string name = "hr-io";  // at most 15 characters (pthread_setname_np)
  EngineOptions engine = {};
};

class IoThread {
 public:
  [[nodiscard]] static Result<std::unique_ptr<IoThread>> start(const IoThreadOptions& options);
  // For tests: drives the engine that `make_engine` makes. It runs on the new thread, because io_uring's SINGLE_ISSUER
  // ties a ring to the thread that opened it.
  [[nodiscard]] static Result<std::unique_ptr<IoThread>> start(
      const std::string& name, std::function<Result<std::unique_ptr<Engine>>()> make_engine);
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // Cancels what is in flight, runs every on_complete and joins. What is submitted from then on ends as cancelled, on
  // the thread that submits it.
  void stop();

  void submit(Operation& operation);
  // Runs `task` on the thread, after what was submitted before it.
  void post(std::function<void()> task);
  // As Engine::hurry(). Costs nothing where nothing waits for its turn.
  void hurry();
  // As those of Engine. They keep their order with what is submitted.
  void register_file(int fd);
  void unregister_file(int fd);
  void set_rotational(bool rotational);
  [[nodiscard]] EngineInfo info() const;

 private:
  IoThread();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::io
