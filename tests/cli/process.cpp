// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace headrace::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& text : strings) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

void redirect(int fd, const std::filesystem::path& file, int flags) {
  const int opened = ::open(file.c_str(), flags, 0600);
  if (opened < 0 || ::dup2(opened, fd) < 0) std::_Exit(125);
}

}  // namespace

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool is_mounted(const std::filesystem::path& path) {
  return contains(read_file("/proc/self/mountinfo"), " " + path.string() + " ");
}

bool has_ended(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/stat");
  return status.empty() || contains(status, ") Z ");
}

bool hears(pid_t pid, int signal) {
  std::istringstream status(read_file("/proc/" + std::to_string(pid) + "/status"));
  std::uint64_t signals = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:") || line.starts_with("SigCgt:")) signals |= std::stoull(line.substr(7), nullptr, 16);
  }
  return (signals >> (signal - 1) & 1) != 0;
}

bool wait_until(const std::function<bool()>& condition) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

Child::Child(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
             const std::string& input, const std::string& program) {
  static_cast<void>(files_.write("input", input));
  std::vector<std::string> argument_copy = arguments;
  argument_copy.insert(argument_copy.begin(), program);
  std::vector<std::string> environment_copy = environment;
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ > 0) return;
  redirect(STDIN_FILENO, files_.path() / "input", O_RDONLY);
  redirect(STDOUT_FILENO, files_.path() / "output", O_WRONLY | O_CREAT);
  redirect(STDERR_FILENO, files_.path() / "errors", O_WRONLY | O_CREAT);
  ::execve(program.c_str(), pointers(argument_copy).data(), pointers(environment_copy).data());
  std::_Exit(126);
}

Child::~Child() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::signal(int number) const {
  ::kill(pid_, number);
}

Outcome Child::wait() {
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("waitpid");
  pid_ = -1;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .output = output(),
          .errors = errors()};
}

std::string Child::output() const {
  return read_file(files_.path() / "output");
}
std::string Child::errors() const {
  return read_file(files_.path() / "errors");
}

TerminalChild::TerminalChild(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                             WindowSize size) {
  std::vector<std::string> argument_copy = arguments;
  argument_copy.insert(argument_copy.begin(), HEADRACE_BINARY);
  std::vector<std::string> environment_copy = environment;
  environment_copy.emplace_back("LC_ALL=C.UTF-8");
  const winsize window{size.rows, size.columns, 0, 0};
  pid_ = ::forkpty(&terminal_, nullptr, nullptr, &window);
  if (pid_ < 0) throw std::runtime_error("forkpty");
  if (pid_ == 0) {
    ::execve(HEADRACE_BINARY, pointers(argument_copy).data(), pointers(environment_copy).data());
    std::_Exit(126);
  }
  ::fcntl(terminal_, F_SETFL, O_NONBLOCK);
  ::fcntl(terminal_, F_SETFD, FD_CLOEXEC);
}

TerminalChild::~TerminalChild() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(terminal_);
}

void TerminalChild::type(char key) const {
  if (::write(terminal_, &key, 1) != 1) throw std::runtime_error("type");
}

void TerminalChild::resize(WindowSize size) const {
  const winsize window{size.rows, size.columns, 0, 0};
  if (::ioctl(terminal_, TIOCSWINSZ, &window) != 0) throw std::runtime_error("resize");
}

const std::string& TerminalChild::screen() {
  char chunk[4096];
  for (ssize_t count = 0; (count = ::read(terminal_, chunk, sizeof chunk)) > 0;) {
    screen_.append(chunk, static_cast<std::size_t>(count));
  }
  return screen_;
}

Outcome TerminalChild::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    static_cast<void>(screen());  // a child that nobody reads would wait for room
    pollfd watched{terminal_, POLLIN, 0};
    ::poll(&watched, 1, 10);
  }
  pid_ = -1;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .output = screen(), .errors = ""};
}

std::vector<std::string> Tool::environment() const {
  const std::string home = home_.path().string();
  std::vector<std::string> all = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + home,
                                  "HEADRACE_RUNTIME_DIR=" + home + "/run", "HEADRACE_CACHE_DIR=" + home + "/cache",
                                  "HEADRACE_LOG_DIR=" + home + "/log"};
  all.insert(all.begin(), environment_.begin(), environment_.end());  // the first one of a name counts
  return all;
}

Outcome Tool::operator()(const std::vector<std::string>& arguments, const std::string& input) const {
  return Child(arguments, environment(), input).wait();
}

std::unique_ptr<TerminalChild> Tool::start_on_terminal(const std::vector<std::string>& arguments,
                                                       WindowSize size) const {
  return std::make_unique<TerminalChild>(arguments, environment(), size);
}

std::unique_ptr<Child> Tool::start(const std::vector<std::string>& arguments) const {
  return std::make_unique<Child>(arguments, environment(), "");
}

std::unique_ptr<Child> Tool::start_shell(const std::string& script) const {
  return std::make_unique<Child>(std::vector<std::string>{"-c", script}, environment(), "", "/bin/sh");
}

}  // namespace headrace::test
