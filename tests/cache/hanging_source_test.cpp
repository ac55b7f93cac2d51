// SPDX-License-Identifier: Apache-2.0
// A file server that has stopped answering: nothing waits for it but who reads from it.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include "headrace/cache/source/folder_source.h"
#include "headrace/io/buffer.h"
#include "headrace/io/timer_thread.h"
#include "headrace/io/unique_fd.h"

#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace hanging_source_test {
namespace {

using headrace::cache::FolderSource;
using headrace::cache::open_source_root;
using headrace::cache::SourceRead;
using headrace::io::Buffer;
using headrace::io::Engine;
using headrace::io::ErrorCode;
using headrace::io::Result;
using headrace::io::Status;
using headrace::io::TimerThread;
using headrace::io::UniqueFd;
using headrace::test::open_fault_engine;
using headrace::test::skip;
using headrace::test::TempDir;

constexpr std::chrono::seconds kLimit{60};

// A file system that begins as it should and then answers nothing, until this is destroyed.
class HangingMount {
 public:
  HangingMount() {
    if (::geteuid() != 0) skip("needs root");
    if (!device_.valid()) skip("needs /dev/fuse");
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    REQUIRE(::mount("hanging", point_.path().c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0);
    REQUIRE(wait_for_request());
    std::array<std::byte, 65536> request;
    REQUIRE(::read(device_.get(), request.data(), request.size()) >= static_cast<ssize_t>(sizeof(fuse_in_header)));
    fuse_in_header first;
    std::memcpy(&first, request.data(), sizeof first);
    REQUIRE(first.opcode == FUSE_INIT);
    struct {
      fuse_out_header header;
      fuse_init_out init;
    } answer = {};
    answer.header = {.len = sizeof answer, .error = 0, .unique = first.unique};
    answer.init.major = FUSE_KERNEL_VERSION;
    answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
    answer.init.max_write = 4096;
    REQUIRE(::write(device_.get(), &answer, sizeof answer) == sizeof answer);
  }
  ~HangingMount() { ::umount2(point_.path().c_str(), MNT_DETACH); }
  HangingMount(const HangingMount&) = delete;
  HangingMount& operator=(const HangingMount&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return point_.path(); }
  // Who waits is told that the file system is gone.
  void end() { device_.reset(); }
  // Waits for somebody to ask for something, who then waits in turn. It is not read: only who waits for an answer to
  // what nobody has read can be killed.
  [[nodiscard]] bool wait_for_request() const {
    pollfd ready{.fd = device_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kLimit).count())) == 1;
  }

 private:
  const TempDir point_;
  UniqueFd device_{::open("/dev/fuse", O_RDWR | O_CLOEXEC)};  // closed before the folder is removed
};

TEST_CASE("while a look at a dead server hangs the timers go on, and the source can be closed") {
  const TempDir folder;
  folder.write("a.jpg", "content");
  HangingMount server;
  TimerThread timers("hr-timer");
  const auto root = open_source_root({.path = folder.path()});
  REQUIRE(root.has_value());
  const auto source = FolderSource::open({.name = "source",
                                          .remount_path = server.path(),
                                          .make_engine = []() -> Result<std::unique_ptr<Engine>> {
                                            auto engine = headrace::io::open_engine({});
                                            if (!engine) return engine;
                                            return open_fault_engine(std::move(*engine), {.error_one_in = 1});
                                          }},
                                         *root, timers);
  REQUIRE(source.has_value());
  std::promise<Status> ended;
  auto buffer = Buffer::allocate(4096);
  REQUIRE(buffer.has_value());
  SourceRead read{.path = "a.jpg", .range = {0, 7}, .buffer = std::move(*buffer)};
  read.context = &ended;
  read.on_done = [](SourceRead& self, Status status) {
    static_cast<std::promise<Status>*>(self.context)->set_value(std::move(status));
  };
  (*source)->read(read);
  CHECK(server.wait_for_request());  // of the look before the read is tried again

  std::promise<void> tick;
  timers.after({}, [&tick] { tick.set_value(); });
  const bool ticks = tick.get_future().wait_for(kLimit) == std::future_status::ready;
  CHECK(ticks);
  if (!ticks) server.end();  // or the timers would not
  (*source)->stop_retrying();
  timers.stop();
  (*source)->settle();
  (*source)->join();
  auto outcome = ended.get_future();
  REQUIRE(outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  const Status status = outcome.get();
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().code == ErrorCode::kCancelled);
}

}  // namespace

}  // namespace hanging_source_test
