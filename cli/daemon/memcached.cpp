// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/memcached.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cache/peer_certificates.h"
#include "headrace/cli/setup/argument_list.h"
#include "headrace/io/close_others.h"
#include "headrace/io/environment.h"
#include "headrace/io/log.h"

namespace headrace::cli {
namespace {

constexpr const char* kProgram = "memcached";
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Who memcached is, where root starts it: the user of Debian's package, or one that is everywhere.
std::string user_of_memcached() {
  constexpr std::size_t kEntryBytes = 16384;
  for (const char* name : {"memcache", "nobody"}) {
    std::array<char, kEntryBytes> strings;
    passwd entry = {};
    passwd* found = nullptr;
    if (::getpwnam_r(name, &entry, strings.data(), strings.size(), &found) == 0 && found != nullptr) return name;
  }
  return "root";
}

bool is_installed() {
  const char* path = io::environment("PATH");
  std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    if (::access(fmt::format("{}/{}", folder, kProgram).c_str(), X_OK) == 0) return true;
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
  }
  return false;
}

std::string describe(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("signal {}", WTERMSIG(wait_status));
  return fmt::format("status {}", WEXITSTATUS(wait_status));
}

// Everything below is of the keeper's process, which has one thread.

sigset_t keeper_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGCHLD);
  return set;
}

// Of this process's own, only what finds programs, their libraries and OpenSSL's settings: a bucket's keys may lie
// there, too, and they are no business of a program that listens to the network.
std::vector<std::string> environment_of_memcached() {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    for (const std::string_view name : {"PATH=", "LD_LIBRARY_PATH=", "OPENSSL_CONF="}) {
      if (text.starts_with(name)) kept.emplace_back(text);
    }
  }
  return kept;
}

pid_t spawn(const std::vector<std::string>& words) {
  const ArgumentList arguments(words);
  posix_spawnattr_t attributes;
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const ArgumentList environment(environment_of_memcached());
  pid_t child = -1;
  const int failure =
      ::posix_spawnp(&child, kProgram, nullptr, &attributes, arguments.pointers(), environment.pointers());
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0)
    io::log_warning("{} cannot be started: {}", kProgram, io::system_error(failure, "run").value().message());
  return failure == 0 ? child : -1;
}

[[noreturn]] void end_with(pid_t child) {
  constexpr int kPatience = 200;  // times 10 ms: memcached frees what it holds
  if (child > 0) ::kill(child, SIGTERM);
  for (int i = 0; child > 0 && i < kPatience; ++i) {
    if (::waitpid(child, nullptr, WNOHANG) == child) ::_exit(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (child > 0) ::kill(child, SIGKILL);
  // The kernel closes its port after it has freed its memory, and the next mount must find the port free.
  if (child > 0) ::waitpid(child, nullptr, 0);
  ::_exit(0);
}

// True: SIGTERM. False: the time is over.
bool wait_for_end(std::chrono::seconds time) {
  const sigset_t signals = keeper_signals();
  const auto until = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    const timespec wait = {std::chrono::duration_cast<std::chrono::seconds>(left).count(),
                           (left % std::chrono::seconds(1)).count()};
    if (::sigtimedwait(&signals, nullptr, &wait) == SIGTERM) return true;
  }
}

[[noreturn]] void keep(const std::vector<std::string>& words) {
  const sigset_t signals = keeper_signals();
  constexpr std::chrono::seconds kSoonest{1};
  constexpr std::chrono::seconds kLatest{
      30};  // what fails at once, such as a port that is taken, does not fill the log
  std::chrono::seconds pause = kSoonest;
  while (true) {
    const auto started = std::chrono::steady_clock::now();
    const pid_t child = spawn(words);
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, WNOHANG) != child) {
      if (::sigwaitinfo(&signals, nullptr) == SIGTERM) end_with(child);
    }
    const bool ran = std::chrono::steady_clock::now() - started > kLatest;
    pause = ran ? kSoonest : std::min(kLatest, pause * 2);
    if (child > 0) io::log_warning("{} has ended with {}; it is started again", kProgram, describe(status));
    if (wait_for_end(pause)) ::_exit(0);
  }
}

}  // namespace

std::string as_command_line(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// slab_chunk_max and no_slab_automove: 0.955 of the memory holds data with the sizes of ImageNet's files, instead of
// 0.83 (measured with memcached 1.6.18). 9m: a whole file of 8 MiB and its header.
std::vector<std::string> memcached_command(const cache::SharedTierOptions& shared, const cache::OwnPeer& peer) {
  std::vector<std::string> words = {kProgram, "-M", "-U", "0", "-l", peer.address, "-p", peer.port};
  words.insert(words.end(), {"-m", std::to_string(std::max<std::uint64_t>(1, shared.bytes_per_peer / kMiB)), "-I", "9m",
                             "-c", "4096"});
  if (::geteuid() == 0) words.insert(words.end(), {"-u", user_of_memcached()});
  std::string extended = "slab_chunk_max=16384,no_slab_automove";
  if (!shared.certificates.empty()) {
    const cache::PeerCertificates files = cache::certificates_in(shared.certificates);
    words.emplace_back("-Z");
    // 2: whoever connects shows a certificate of the job, too. 3: TLS 1.3.
    extended += fmt::format(",ssl_chain_cert={},ssl_key={},ssl_ca_cert={},ssl_verify_mode=2,ssl_min_version=3",
                            files.certificate.string(), files.key.string(), files.authority.string());
  }
  words.insert(words.end(), {"-o", std::move(extended)});
  return words;
}

io::Result<MemcachedPlan> plan_memcached(const cache::SharedTierOptions& shared, bool runs) {
  if (shared.peers.empty()) return MemcachedPlan{};
  const cache::PeerTalk talk = shared.certificates.empty() ? cache::PeerTalk::kClear : cache::PeerTalk::kTls;
  HEADRACE_TRY(own, cache::find_own_peers(shared.peers, talk));
  const auto foreign =
      std::ranges::find_if(own, [](const cache::OwnPeer& peer) { return peer.foreign_user.has_value(); });
  if (talk == cache::PeerTalk::kClear && foreign != own.end()) {
    return io::make_error(
        io::ErrorCode::kPermission,
        fmt::format("--peers: user {} listens at {} and could give other bytes; end that, name another "
                    "port (HOST:PORT), or talk TLS with --peer-tls",
                    *foreign->foreign_user, foreign->name));
  }
  MemcachedPlan plan;
  if (own.empty()) {
    plan.why_not = "no peer has an address of this machine";
    return plan;
  }
  plan.peer = own.front().name;
  if (own.size() > 1) {
    plan.why_not = fmt::format("{} and {} are both this machine", own[0].name, own[1].name);
  } else if (own.front().is_served && !runs) {
    plan.why_not = fmt::format("somebody listens at {} already", plan.peer);
  } else if (shared.certificates.native().find(',') != std::string::npos) {
    plan.why_not =
        fmt::format("memcached takes no certificates from a folder with a comma: {}", shared.certificates.string());
  } else if (!is_installed()) {
    plan.why_not = "memcached is not installed (apt install memcached)";
  } else {
    plan.words = memcached_command(shared, own.front());
  }
  return plan;
}

io::Result<MemcachedKeeper> MemcachedKeeper::start(const MemcachedPlan& plan) {
  const sigset_t signals = keeper_signals();
  const pid_t parent = ::getpid();
  const pid_t keeper = ::fork();
  if (keeper < 0) return io::system_error(errno, "fork");
  if (keeper == 0) {
    ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    ::setsid();  // Ctrl-C in a terminal is for the mount, which ends this in its own time
    ::prctl(PR_SET_NAME, "hr-memcached");
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(0);
    // The mount waits for some of them to be closed.
    if (const io::Status closed = io::close_others({}); !closed)
      io::log_warning("memcached: {}", closed.error().message());
    keep(plan.words);
  }
  io::log_info("this node shares by: {}", as_command_line(plan.words));
  MemcachedKeeper kept(keeper);
  const std::vector<std::string> peer = {plan.peer};
  constexpr int kLooks = 200;  // times 10 ms
  for (int i = 0; i < kLooks; ++i) {
    const auto own = cache::find_own_peers(peer, cache::PeerTalk::kTls);
    if (own && !own->empty() && own->front().is_served) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return kept;
}

MemcachedKeeper::~MemcachedKeeper() {
  if (keeper_ <= 0) return;
  ::kill(keeper_, SIGTERM);
  ::waitpid(keeper_, nullptr, 0);
}

}  // namespace headrace::cli
