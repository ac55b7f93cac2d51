// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/io_thread.h"

#include <atomic>
#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "headrace/io/internal/operation_queue.h"
#include "headrace/io/internal/transfer.h"
#include "headrace/io/mutex.h"

namespace headrace::io {
namespace {

// What other threads ask for, in the order in which they asked.
struct Command {
  Operation* operation;  // to submit; nullptr: run the task
  std::function<void()> task;
};

}  // namespace

struct IoThread::Impl {
  using MakeEngine = std::function<Result<std::unique_ptr<Engine>>()>;

  void push(Command command);
  [[nodiscard]] bool take_commands();
  void run(const MakeEngine& make_engine, std::promise<Status> opened);
  void run_commands();
  void end_without_engine(Operation& operation);

  std::thread thread;

  // Set before start() returns, then read only; cleared by the thread under `mutex` at its end.
  std::unique_ptr<Engine> engine;

  // The thread only.
  std::vector<Command> taken;

  std::atomic<bool> is_crowded = false;  // operations wait for their turn

  mutable Mutex mutex;
  std::vector<Command> commands HEADRACE_GUARDED_BY(mutex);
  bool asleep HEADRACE_GUARDED_BY(mutex) = false;  // may be in wait(): needs a wake()
  bool stopping HEADRACE_GUARDED_BY(mutex) = false;
  bool ended HEADRACE_GUARDED_BY(mutex) = false;  // nobody takes commands any more
};

void IoThread::Impl::push(Command command) {
  MutexLock lock(mutex);
  if (ended) {
    lock.unlock();
    return command.operation == nullptr ? command.task() : end_without_engine(*command.operation);
  }
  commands.push_back(std::move(command));
  // The thread itself looks at the commands before it sleeps again. Other threads wake it once, however many commands
  // follow.
  if (!asleep || std::this_thread::get_id() == thread.get_id()) return;
  asleep = false;
  engine->wake();
}

// False when there is nothing to do: the thread may sleep, or end.
bool IoThread::Impl::take_commands() {
  MutexLock lock(mutex);
  taken.clear();
  taken.swap(commands);
  asleep = taken.empty() && !stopping;
  ended = taken.empty() && engine == nullptr;
  return !taken.empty();
}

void IoThread::Impl::run_commands() {
  while (take_commands()) {
    for (Command& command : taken) {
      if (command.operation == nullptr) {
        command.task();
      } else if (engine != nullptr) {
        engine->submit(*command.operation);
      } else {
        end_without_engine(*command.operation);
      }
    }
  }
}

// Ends what completions submit after the engine is gone.
void IoThread::Impl::end_without_engine(Operation& operation) {
  internal::begin(operation);
  internal::finish(operation, -ECANCELED);
  internal::deliver(operation);
}

void IoThread::Impl::run(const MakeEngine& make_engine, std::promise<Status> opened) {
  Result<std::unique_ptr<Engine>> made = make_engine();
  if (!made) return opened.set_value(forward_error(std::move(made)));
  engine = std::move(*made);
  opened.set_value({});

  for (bool stop = false; !stop;) {
    run_commands();
    {
      MutexLock lock(mutex);
      stop = stopping;
    }
    is_crowded.store(engine->waiting() > 0, std::memory_order_relaxed);
    if (!stop) engine->wait(std::chrono::steady_clock::time_point::max());
  }
  run_commands();
  engine.reset();
  run_commands();
}

IoThread::IoThread() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<IoThread>> IoThread::start(const IoThreadOptions& options) {
  return start(options.name, [engine = options.engine] { return open_engine(engine); });
}

Result<std::unique_ptr<IoThread>> IoThread::start(const std::string& name,
                                                  std::function<Result<std::unique_ptr<Engine>>()> make_engine) {
  std::unique_ptr<IoThread> made(new IoThread);
  std::promise<Status> promise;
  std::future<Status> opened = promise.get_future();
  try {
    made->impl_->thread = std::thread(
        [&impl = *made->impl_, promise = std::move(promise), make_engine = std::move(make_engine), name]() mutable {
          ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
          impl.run(make_engine, std::move(promise));
        });
  } catch (const std::system_error& error) {
    return system_error(error.code().value(), "start thread " + name);
  }
  HEADRACE_TRY_DO(opened.get());
  return made;
}

IoThread::~IoThread() {
  stop();
}

void IoThread::stop() {
  if (!impl_->thread.joinable()) return;
  {
    MutexLock lock(impl_->mutex);
    impl_->stopping = true;
    if (impl_->asleep) impl_->engine->wake();
    impl_->asleep = false;
  }
  impl_->thread.join();
}

void IoThread::submit(Operation& operation) {
  impl_->push({&operation, {}});
}
void IoThread::post(std::function<void()> task) {
  impl_->push({nullptr, std::move(task)});
}
void IoThread::hurry() {
  if (!impl_->is_crowded.load(std::memory_order_relaxed)) return;
  post([&engine = impl_->engine] {
    if (engine != nullptr) engine->hurry();
  });
}
void IoThread::register_file(int fd) {
  post([&engine = impl_->engine, fd] {
    if (engine != nullptr) engine->register_file(fd);
  });
}
void IoThread::unregister_file(int fd) {
  post([&engine = impl_->engine, fd] {
    if (engine != nullptr) engine->unregister_file(fd);
  });
}
void IoThread::set_rotational(bool rotational) {
  post([&engine = impl_->engine, rotational] {
    if (engine != nullptr) engine->set_rotational(rotational);
  });
}
EngineInfo IoThread::info() const {
  return impl_->engine->info();
}

}  // namespace headrace::io
