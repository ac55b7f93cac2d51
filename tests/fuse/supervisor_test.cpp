// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/supervisor.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cache/refresher.h"
#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/io/unique_fd.h"

#include "fuse/hanging_store.h"
#include "fuse/mounted.h"

namespace headrace::fuse::supervisor_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::Mounted;
using test::need_fuse;
using test::read_file;

constexpr unsigned kSampleCount = 40;
constexpr std::size_t kSampleBytes = 50'000;

unsigned rounds() {
  const char* text = std::getenv("HEADRACE_TEST_ROUNDS");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 5;
}

// What the test sees of the processes that it started, in memory that they share.
struct Seen {
  std::atomic<pid_t> worker = 0;    // the last one that was started
  std::atomic<unsigned> ready = 0;  // how many workers have got ready
  std::atomic<unsigned> announced = 0;
  std::atomic<bool> hangs = false;        // the first worker waits for an answer of its own
  std::atomic<bool> may_refresh = false;  // the first worker is to compare the source with the catalog
  std::atomic<unsigned> failed = 0;       // workers that could not take over
  std::atomic<unsigned> stand_ins = 0;
  std::atomic<std::uint64_t> changed = 0;  // files that it found changed
  std::atomic<std::uint64_t> takeovers = 0;
  std::atomic<unsigned> may_renew = 0;  // how many times workers are to go on with what names the source has
  std::atomic<std::uint64_t> renewals = 0;
  std::atomic<std::uint64_t> appeared = 0;       // names, at the last time
  std::atomic<std::uint64_t> held_at_start = 0;  // samples in the page cache when the last worker got ready
};

// A supervised mount of `mounted`'s source, in processes of their own.
class Supervised {
 public:
  // How a worker goes about its work.
  enum class Work : std::uint8_t {
    kServe,
    kHangFirst,
    kRefreshFirst,
    kFailSecond,
    kNeverAgain,
    kRefreshOnly,
    kPushFirst,
    kRenew
  };

  Supervised(Mounted& mounted, std::uint64_t ram_bytes, Work work = Work::kServe)
      : work_(work),
        seen_(new (::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Seen),
        mounted_(mounted) {
    mounted_.options.ram_bytes = ram_bytes;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that a worker without its supervisor can be waited for
    std::fflush(nullptr);                // or the child prints once more what this process has not written yet
    supervisor_ = ::fork();
    if (supervisor_ != 0) return;
    for (const int signal : {SIGSEGV, SIGABRT, SIGTERM, SIGINT}) ::signal(signal, SIG_DFL);  // doctest's handlers
    ::_exit(run());
  }
  ~Supervised() {
    if (supervisor_ > 0) stop();
    ::munmap(seen_, sizeof(Seen));
  }

  void wait_until_ready(unsigned count) const {
    wait_until([&] { return seen_->ready >= count; });
  }
  void wait_until_begun() const {
    wait_until([&] { return seen_->worker != 0; });
  }
  void kill_worker() const { ::kill(seen_->worker, SIGKILL); }
  // One that hangs is let go after a while, so that the test ends.
  void wait_until_worker_is_gone() const {
    const std::vector<MountEntry> mounts = mounts_at(mounted_.path());
    const auto deadline = steady_clock::now() + std::chrono::seconds(20);
    bool is_gone = false;
    while (!is_gone && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(2));
      is_gone = ::waitpid(seen_->worker, nullptr, WNOHANG) != 0;
    }
    if (!is_gone && !mounts.empty()) abort_connection(mounted_.path(), mounts.front().device);
    CHECK(is_gone);
  }
  void stop_worker() const { ::kill(seen_->worker, SIGSTOP); }
  void continue_worker() const { ::kill(seen_->worker, SIGCONT); }
  void kill_supervisor() {
    ::kill(supervisor_, SIGKILL);
    ::waitpid(std::exchange(supervisor_, -1), nullptr, 0);
  }
  // Returns the exit status: 0 when supervise() said that all is well.
  int stop() {
    ::kill(supervisor_, SIGTERM);
    return wait();
  }
  // The same for one that ends by itself; its handling of signals has ended before it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(supervisor_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void wait_until_a_stand_in_answers() const {
    wait_until([&] { return seen_->stand_ins > 0; });
    CHECK(read_file(mounted_.file(Mounted::sample_name(0))) == Mounted::sample_content(0, kSampleBytes));
  }
  // Returns when the first worker has told its mount of `count` files.
  void refresh(unsigned count) const {
    seen_->may_refresh = true;
    wait_until([&] { return seen_->changed == count; });
  }
  // Returns when a worker serves with what names the source has now.
  void renew() const {
    const unsigned count = ++seen_->may_renew;
    const unsigned ready = seen_->ready;
    wait_until([&] { return seen_->renewals == count && seen_->ready > ready; });
  }
  [[nodiscard]] const Seen& seen() const { return *seen_; }

 private:
  template <typename Condition>
  static void wait_until(const Condition& holds) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      REQUIRE(steady_clock::now() < deadline);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  int run() {
    const Status status =
        supervise({.channel = {.mountpoint = mounted_.path()},
                   .worker = [this](Channel& channel, const auto& ready) { return work(channel, ready); },
                   .stand_in = [this](Channel& channel) { return answer(channel); },
                   .on_ready = [this] { ++seen_->announced; },
                   .deaths_per_minute_max = rounds() + 1});
    if (!status) std::fprintf(stderr, "supervise: %s\n", status.error().message().c_str());
    return status ? 0 : 1;
  }

  Status work(Channel& channel, const std::function<void()>& ready) {
    seen_->worker = ::getpid();
    sigset_t stop_signal;
    ::sigemptyset(&stop_signal);
    ::sigaddset(&stop_signal, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &stop_signal, nullptr);
    HEADRACE_TRY(store, open_store(channel));
    const bool may_fail =
        work_ == Work::kNeverAgain || work_ == Work::kRefreshOnly || (work_ == Work::kFailSecond && seen_->failed < 2);
    if (may_fail && channel.init_answered()) {
      // What throws is a process that gets no more threads.
      if (++seen_->failed == 2) throw std::system_error(EAGAIN, std::system_category(), "thread");
      return io::make_error(io::ErrorCode::kBusy, "the tier");
    }
    if (work_ == Work::kHangFirst && !channel.init_answered()) return wait_for_itself(*store, channel);
    HEADRACE_TRY(mount, Mount::start(*store, mounted_.options, channel));
    seen_->takeovers = mount->stats().takeovers;
    seen_->held_at_start = mount->stats().held_samples;
    seen_->renewals = mount->stats().renewals;
    seen_->appeared = mount->stats().renewed.appeared;
    const bool is_first = seen_->takeovers + seen_->renewals == 0;
    if (is_first && (work_ == Work::kPushFirst || (work_ == Work::kRenew && mounted_.options.ram_bytes > 0))) {
      HEADRACE_TRY_DO(mount->push_until_full([](const auto&) { return true; }));
    }
    ready();
    ++seen_->ready;
    const bool refreshes = work_ == Work::kRefreshFirst || work_ == Work::kRefreshOnly;
    if (refreshes && seen_->takeovers == 0) refresh(*store, *mount);
    std::atomic<bool> ends = false;
    std::thread renewing([&] {
      if (work_ == Work::kRenew) renew_when_asked(*store, *mount, ends);
    });
    int signal = 0;
    ::sigwait(&stop_signal, &signal);
    ends = true;
    renewing.join();
    return {};
  }

  void renew_when_asked(cache::Store& store, Mount& mount, const std::atomic<bool>& ends) const {
    while (!ends && seen_->may_renew == mount.stats().renewals) std::this_thread::sleep_for(milliseconds(1));
    if (ends) return;
    cache::RefresherOptions options;
    options.on_told = [&] { mount.wait_until_forgotten(); };
    options.on_other_names = [&](const cache::CatalogChanges& changes) {
      return mount.renew(*changes.next, {.appeared = changes.appeared});
    };
    cache::Refresher refresher(store, std::move(options));
    refresher.request();
    while (!ends) std::this_thread::sleep_for(milliseconds(1));
  }

  Result<std::unique_ptr<cache::Store>> open_store(const Channel& channel) const {
    return cache::Store::open({.source = mounted_.source().path(),
                               .catalog_file = catalog_folder_.path() / "saved",
                               .catalog_fd = channel.catalog_fd()});
  }

  Status answer(Channel& channel) const {
    HEADRACE_TRY(store, open_store(channel));
    ++seen_->stand_ins;
    return stand_in(*store, channel);
  }

  void refresh(cache::Store& store, Mount& mount) {
    while (!seen_->may_refresh) std::this_thread::sleep_for(milliseconds(1));
    cache::Refresher refresher(store, {});
    while (refresher.state().rounds == 0) std::this_thread::sleep_for(milliseconds(1));
    mount.wait_until_forgotten();
    const cache::CatalogChanges changes = store.changes();
    seen_->changed = changes.changed.size() + changes.vanished.size();
  }

  // Reads through the mount that it serves, past the page cache, for which the kernel waits whatever happens to the
  // process.
  Status wait_for_itself(cache::Store& store, Channel& channel) {
    test::HangingStore hanging(store);
    HEADRACE_TRY(mount, Mount::start(hanging, mounted_.options, channel));
    std::thread reader([&] {
      std::vector<char> buffer(kSampleBytes);
      const int fd = ::open(mounted_.file(Mounted::sample_name(0)).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
      [[maybe_unused]] const ssize_t count = ::read(fd, buffer.data(), buffer.size());
      ::close(fd);
    });
    hanging.wait_for_a_read();
    ++seen_->ready;
    seen_->hangs = true;
    reader.join();
    return {};
  }

  const Work work_;
  headrace::test::TempDir catalog_folder_;
  Seen* seen_;
  Mounted& mounted_;
  pid_t supervisor_ = -1;
};

// Reads all samples over and over, never from the page cache, and checks every byte.
class CheckingReaders {
 public:
  CheckingReaders(const Mounted& mounted, unsigned threads) {
    for (unsigned i = 0; i < kSampleCount; ++i) expected_.push_back(Mounted::sample_content(i, kSampleBytes));
    for (unsigned t = 0; t < threads; ++t) threads_.emplace_back([this, &mounted, t] { run(mounted, t); });
  }
  ~CheckingReaders() { finish(); }
  void finish() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void wait_for_reads(unsigned more) const {
    const unsigned target = reads_ + more;
    while (reads_ < target && failures_ == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  [[nodiscard]] unsigned failures() const { return failures_; }
  [[nodiscard]] milliseconds longest() const { return milliseconds(longest_ms_.load()); }

 private:
  void run(const Mounted& mounted, unsigned number) {
    while (!stop_) {
      number = (number * 5 + 3) % kSampleCount;
      const std::string path = mounted.file(Mounted::sample_name(number));
      const auto start = steady_clock::now();
      if (read_file(path) != expected_[number]) ++failures_;
      const auto taken = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start).count();
      longest_ms_ = std::max<std::int64_t>(longest_ms_, taken);  // a race loses a figure of a report at most
      ++reads_;
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }

  std::vector<std::string> expected_;
  std::atomic<bool> stop_ = false;
  std::atomic<unsigned> reads_ = 0;
  std::atomic<unsigned> failures_ = 0;
  std::atomic<std::int64_t> longest_ms_ = 0;
  std::vector<std::thread> threads_;
};

TEST_CASE("killing the worker under 16 readers fails no read and changes no byte") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  Supervised supervised(mounted, 0);
  supervised.wait_until_ready(1);
  CheckingReaders readers(mounted, 16);
  for (unsigned round = 1; round <= rounds(); ++round) {
    readers.wait_for_reads(50);
    supervised.kill_worker();
    supervised.wait_until_ready(round + 1);
  }
  readers.wait_for_reads(50);
  readers.finish();
  CHECK(readers.failures() == 0);
  MESSAGE("longest read, pause included: " << readers.longest().count() << " ms");
  CHECK(readers.longest() < std::chrono::seconds(30));  // a hang: on a busy machine a takeover alone may take seconds
  CHECK(supervised.seen().takeovers == rounds());
  CHECK(supervised.seen().announced == 1);
  CHECK(supervised.stop() == 0);
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("a worker that dies while it waits for an answer of its own is replaced") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  Supervised supervised(mounted, 0, Supervised::Work::kHangFirst);
  supervised.wait_until_ready(1);
  while (!supervised.seen().hangs) std::this_thread::sleep_for(milliseconds(1));
  supervised.kill_worker();
  supervised.wait_until_ready(2);
  CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, kSampleBytes));
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
  CHECK(supervised.seen().takeovers == 1);
  CHECK(supervised.stop() == 0);
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("a stand-in answers for a worker that is stopped, until it goes on") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  Supervised supervised(mounted, 0);
  supervised.wait_until_ready(1);
  supervised.stop_worker();
  supervised.wait_until_a_stand_in_answers();
  CHECK(read_file(mounted.file(Mounted::sample_name(1))) == Mounted::sample_content(1, kSampleBytes));
  supervised.continue_worker();
  CHECK(read_file(mounted.file(Mounted::sample_name(2))) == Mounted::sample_content(2, kSampleBytes));
  CHECK(supervised.seen().takeovers == 0);
  CHECK(supervised.stop() == 0);
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("a worker that takes over knows what was pushed before it") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  Supervised supervised(mounted, 16 << 20, Supervised::Work::kPushFirst);
  supervised.wait_until_ready(1);
  supervised.kill_worker();
  supervised.wait_until_ready(2);
  CHECK(supervised.seen().held_at_start == kSampleCount);
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
}

TEST_CASE("a worker that takes over serves files as the one before it knew them to be") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  Supervised supervised(mounted, 0, Supervised::Work::kRefreshFirst);
  supervised.wait_until_ready(1);
  const std::string grown(2 * kSampleBytes, 'g');
  const std::string shrunk(kSampleBytes / 2, 's');
  for (const int sample : {0, 1}) {  // the kernel knows sizes and bytes
    CHECK(read_file(mounted.file(Mounted::sample_name(sample))) == Mounted::sample_content(sample, kSampleBytes));
  }
  mounted.source().write(Mounted::sample_name(0), grown);
  mounted.source().write(Mounted::sample_name(1), shrunk);
  supervised.refresh(2);
  supervised.kill_worker();
  supervised.wait_until_ready(2);
  CHECK((read_file(mounted.file(Mounted::sample_name(0))) == grown));
  CHECK((read_file(mounted.file(Mounted::sample_name(1))) == shrunk));
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
}

TEST_CASE("a stand-in serves files as the last worker knew them to be, and no mix of what changes while it stands in") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(5, kSampleBytes);
  Supervised supervised(mounted, 0, Supervised::Work::kRefreshOnly);
  supervised.wait_until_ready(1);
  const std::string grown(2 * kSampleBytes, 'g');
  const std::string shrunk(kSampleBytes / 2, 's');
  mounted.source().write(Mounted::sample_name(1), grown);
  mounted.source().write(Mounted::sample_name(2), shrunk);
  supervised.refresh(2);
  supervised.kill_worker();
  supervised.wait_until_a_stand_in_answers();
  CHECK((read_file(mounted.file(Mounted::sample_name(1))) == grown));
  CHECK((read_file(mounted.file(Mounted::sample_name(2))) == shrunk));
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
  mounted.source().write(Mounted::sample_name(4), grown);
  const std::string changed = read_file(mounted.file(Mounted::sample_name(4)));
  CHECK((changed.empty() || changed == grown));  // nobody can have read the old bytes
  CHECK(supervised.stop() == 0);
}

TEST_CASE("a worker that takes over shows the names that the mount was made with, whatever the source has by then") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  Supervised supervised(mounted, 0);
  supervised.wait_until_ready(1);
  mounted.source().write("a/000000-new.jpg", "would shift every number after it");
  supervised.kill_worker();
  supervised.wait_until_ready(2);
  for (unsigned i = 0; i < 4; ++i) {
    CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kSampleBytes));
  }
  CHECK(read_file(mounted.file("a/000000-new.jpg")).empty());
  CHECK(supervised.stop() == 0);
}

TEST_CASE("a mount goes on with the names that its source has now, and no reader notices") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.source().write("a/goes.jpg", "as a file that nobody reads");
  mounted.source().write("gone/x.jpg", "with its folder");
  Supervised supervised(mounted, 0, Supervised::Work::kRenew);
  supervised.wait_until_ready(1);
  CHECK(read_file(mounted.file("a/goes.jpg")) == "as a file that nobody reads");
  CHECK(read_file(mounted.file("a/000000-new.jpg")).empty());  // the kernel remembers that
  const std::string last = mounted.file(Mounted::sample_name(kSampleCount - 1));
  const io::UniqueFd held(::open(last.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat before {};
  REQUIRE(::fstat(held.get(), &before) == 0);
  CheckingReaders readers(mounted, 8);
  for (int round = 0; round < 2; ++round) {
    readers.wait_for_reads(50);
    mounted.source().write("a/000000-new.jpg", "would shift every number after it" + std::to_string(round));
    mounted.source().write("c" + std::to_string(round) + "/deep/new.jpg", "in a new folder");
    std::filesystem::remove(mounted.source().path() / (round == 0 ? "a/goes.jpg" : "gone/x.jpg"));
    supervised.renew();
    CHECK(fuse::test::difference(mounted.source().path(), mounted.path()) == "");
  }
  readers.wait_for_reads(50);
  readers.finish();
  CHECK(readers.failures() == 0);
  CHECK(supervised.seen().appeared == 3);
  CHECK(supervised.seen().takeovers == 0);
  struct stat after {};
  REQUIRE(::stat(last.c_str(), &after) == 0);
  CHECK(after.st_ino == before.st_ino);
  std::string content(kSampleBytes, '\0');
  ::posix_fadvise(held.get(), 0, 0, POSIX_FADV_DONTNEED);
  REQUIRE(::pread(held.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(kSampleBytes));
  CHECK((content == Mounted::sample_content(kSampleCount - 1, kSampleBytes)));
  errno = 0;
  CHECK(read_file(mounted.file("gone/x.jpg")).empty());
  CHECK(errno == ENOENT);
  supervised.kill_worker();  // the next one has the same names
  supervised.wait_until_ready(4);
  CHECK(read_file(mounted.file("c1/deep/new.jpg")) == "in a new folder");
  CHECK(supervised.seen().takeovers == 1);
  CHECK(supervised.stop() == 0);
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("what was pushed, and what is another version by now, is known under other names, too") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  Supervised supervised(mounted, 16 << 20, Supervised::Work::kRenew);
  supervised.wait_until_ready(1);
  const std::string changed(kSampleBytes / 2, 'c');
  mounted.source().write(Mounted::sample_name(2), changed);
  mounted.source().write("a/000000-new.jpg", "would shift every number after it");
  supervised.renew();
  CHECK(supervised.seen().held_at_start >= kSampleCount - 1);
  CHECK((read_file(mounted.file(Mounted::sample_name(2))) == changed));
  for (unsigned i = 3; i < kSampleCount; ++i) {
    CHECK((read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kSampleBytes)));
  }
  CHECK(read_file(mounted.file("a/000000-new.jpg")) == "would shift every number after it");
  CHECK(supervised.stop() == 0);
}

TEST_CASE("below an overlay other names are shown, too, also what was looked for before it was there") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  mounted.source().write("a/goes.jpg", "soon");
  mounted.options.overlay = OverlayMode::kIfPossible;
  Supervised supervised(mounted, 0, Supervised::Work::kRenew);
  supervised.wait_until_ready(1);
  CHECK(read_file(mounted.file("a/goes.jpg")) == "soon");
  CHECK(read_file(mounted.file("a/new.jpg")).empty());
  mounted.source().write("a/new.jpg", "new");
  std::filesystem::remove(mounted.source().path() / "a/goes.jpg");
  supervised.renew();
  CHECK(read_file(mounted.file("a/new.jpg")) == "new");
  CHECK_FALSE(std::filesystem::exists(mounted.file("a/goes.jpg")));
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
  CHECK(supervised.stop() == 0);
}

TEST_CASE("who is in the middle of a folder when names come and go is told each of the others once") {
  need_fuse();
  Mounted mounted;
  constexpr int kNames = 3000;  // more than a READDIR takes
  std::set<std::string> expected;
  for (int i = 0; i < kNames; ++i) {
    const std::string name = "name-" + std::to_string(1'000'000 + i) + ".jpg";
    mounted.source().write("all/" + name, "x");
    if (i % 3 != 0) expected.insert(name);
  }
  Supervised supervised(mounted, 0, Supervised::Work::kRenew);
  supervised.wait_until_ready(1);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(mounted.file("all").c_str()), &::closedir);
  std::multiset<std::string> seen;
  const auto list = [&](int count) {
    for (const dirent* entry = nullptr; count > 0 && (entry = ::readdir(folder.get())) != nullptr; --count)
      seen.insert(entry->d_name);
  };
  list(kNames / 2);
  for (int i = 0; i < kNames; ++i) {
    const std::string name = "name-" + std::to_string(1'000'000 + i);
    if (i % 3 == 0) std::filesystem::remove(mounted.source().path() / "all" / (name + ".jpg"));
    if (i % 5 == 0) mounted.source().write("all/" + name + "-new.jpg", "y");
  }
  supervised.renew();
  list(2 * kNames);
  for (const std::string& name : expected) {
    CAPTURE(name);
    CHECK(seen.count(name) == 1);
  }
  CHECK(supervised.stop() == 0);
}

TEST_CASE("a worker that cannot take over yet is tried again, and readers are served meanwhile") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  Supervised supervised(mounted, 0, Supervised::Work::kFailSecond);
  supervised.wait_until_ready(1);
  CheckingReaders readers(mounted, 4);
  readers.wait_for_reads(20);
  supervised.kill_worker();
  supervised.wait_until_ready(2);
  readers.wait_for_reads(50);
  readers.finish();
  CHECK(readers.failures() == 0);
  CHECK(supervised.seen().failed == 2);
  CHECK(supervised.seen().stand_ins >= 1);
  CHECK(supervised.stop() == 0);
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("a mount whose worker cannot take over yet can be unmounted, and stopped") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  Supervised supervised(mounted, 0, Supervised::Work::kNeverAgain);
  supervised.wait_until_ready(1);
  supervised.kill_worker();
  supervised.wait_until_a_stand_in_answers();
  SUBCASE("unmounted") {
    CHECK(unmount(mounted.path()));
    CHECK(supervised.wait() == 0);
  }
  SUBCASE("stopped") {
    CHECK(supervised.stop() == 0);
  }
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("killing the supervisor ends the mount, and the next one finds the place free") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  Supervised supervised(mounted, 1 << 20);
  supervised.wait_until_ready(1);
  supervised.kill_supervisor();
  supervised.wait_until_worker_is_gone();
  mounted.start();
  CHECK(read_file(mounted.file(Mounted::sample_name(1))) == Mounted::sample_content(1, kSampleBytes));
}

TEST_CASE("killing supervisor and worker leaves a dead mount, which the next one clears") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  Supervised supervised(mounted, 0);
  supervised.wait_until_ready(1);
  ::kill(supervised.seen().worker, SIGSTOP);  // so that it cannot unmount in order
  supervised.kill_supervisor();
  supervised.kill_worker();
  mounted.start();
  CHECK(read_file(mounted.file(Mounted::sample_name(1))) == Mounted::sample_content(1, kSampleBytes));
}

TEST_CASE(
    "where both were killed while the worker waited for its own mount, that ends by unmounting or the next mount") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  bool by_mounting = false;
  SUBCASE("unmounting") {}
  SUBCASE("the next mount") {
    by_mounting = true;
  }
  Supervised supervised(mounted, 0, Supervised::Work::kHangFirst);
  supervised.wait_until_ready(1);
  while (!supervised.seen().hangs) std::this_thread::sleep_for(milliseconds(1));
  std::thread reader([&] { CHECK(read_file(mounted.file(Mounted::sample_name(1))).empty()); });
  supervised.kill_supervisor();
  supervised.kill_worker();
  if (by_mounting) {
    // Who lives may answer again, and nobody may be known.
    for (const pid_t served_by : {pid_t{0}, ::getpid()}) {
      const Status refused = check_mount_point(mounted.path(), {.served_by = served_by});
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == io::ErrorCode::kBusy);
    }
    CHECK(check_mount_point(mounted.path(), {.served_by = supervised.seen().worker}));
  } else {
    CHECK(unmount(mounted.path()));
  }
  supervised.wait_until_worker_is_gone();
  reader.join();
  mounted.start();
  CHECK(read_file(mounted.file(Mounted::sample_name(1))) == Mounted::sample_content(1, kSampleBytes));
}

TEST_CASE(
    "killing both at any moment leaves nobody hanging once it is unmounted, and the next mount finds the place free") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  for (unsigned round = 0; round < rounds(); ++round) {
    CAPTURE(round);
    Supervised supervised(mounted, kSampleCount * kSampleBytes / 2);
    supervised.wait_until_begun();
    std::atomic<bool> stop = false;
    std::thread reader([&] {
      for (unsigned i = 0; !stop; i = (i + 7) % kSampleCount) {
        const std::string content = read_file(mounted.file(Mounted::sample_name(i)));
        // Short: an error, after as many bytes as the page cache had.
        CHECK(content == Mounted::sample_content(i, kSampleBytes).substr(0, content.size()));
        if (content.empty()) std::this_thread::sleep_for(milliseconds(1));
      }
    });
    std::this_thread::sleep_for(milliseconds(round * 13 % 60));  // while it lists, pushes, answers
    supervised.kill_supervisor();
    supervised.kill_worker();
    CHECK(unmount(mounted.path()));
    supervised.wait_until_worker_is_gone();
    stop = true;
    reader.join();
  }
  mounted.start();
  CHECK(read_file(mounted.file(Mounted::sample_name(1))) == Mounted::sample_content(1, kSampleBytes));
}

TEST_CASE("a worker that cannot start passes its error on, and nothing stays mounted") {
  need_fuse();
  Mounted mounted;
  const Status status = supervise({.channel = {.mountpoint = mounted.path()}, .worker = [](Channel&, const auto&) {
                                     return Status(io::make_error(io::ErrorCode::kNotFound, "the source", ENOENT));
                                   }});
  REQUIRE_FALSE(status);
  CHECK(status.error().message() == "the source: No such file or directory");
  CHECK(status.error().code == io::ErrorCode::kNotFound);
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("a worker that dies over and over is given up") {
  need_fuse();
  Mounted mounted;
  const Status status = supervise({.channel = {.mountpoint = mounted.path()},
                                   .worker = [](Channel&, const auto&) -> Status {
                                     ::raise(SIGKILL);
                                     return {};
                                   },
                                   .deaths_per_minute_max = 3});
  REQUIRE_FALSE(status);
  CHECK(mounts_at(mounted.path()).empty());
}

}  // namespace
}  // namespace headrace::fuse::supervisor_test
