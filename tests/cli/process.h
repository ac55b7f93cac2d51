// SPDX-License-Identifier: Apache-2.0
// Runs the headrace program as a user would, and says what came of it.
//
//   Tool tool;                                        // its own runtime, cache and log folders
//   const Outcome outcome = tool({"order", source, "--order", "sequential"});
//   CHECK(outcome.status == 0);
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/temp_dir.h"

namespace headrace::test {

[[nodiscard]] bool contains(const std::string& text, const std::string& part);
// "" where there is none.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
[[nodiscard]] bool is_mounted(const std::filesystem::path& path);
// Gone, or a zombie that its parent has not collected yet.
[[nodiscard]] bool has_ended(pid_t pid);
// Whether it is past its start: it catches the signal, or waits for it.
[[nodiscard]] bool hears(pid_t pid, int signal);
// False when it does not hold within half a minute, which is a hang on any machine.
[[nodiscard]] bool wait_until(const std::function<bool()>& condition);

struct Outcome {
  int status = -1;  // exit status; 128 + n when signal n ended it
  std::string output;
  std::string errors;
};

// A child with its output in files, so that a daemon that it leaves behind cannot keep a pipe open.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
        const std::string& input, const std::string& program = HEADRACE_BINARY);
  ~Child();  // kills what is left
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const;
  [[nodiscard]] Outcome wait();
  [[nodiscard]] std::string output() const;  // so far
  [[nodiscard]] std::string errors() const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  TempDir files_;
  pid_t pid_ = -1;
};

struct WindowSize {
  unsigned short columns = 80;
  unsigned short rows = 24;
};

// A child on a terminal of its own, which it leads as a shell's foreground job does: ETX typed is a Ctrl-C.
class TerminalChild {
 public:
  TerminalChild(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                WindowSize size);
  ~TerminalChild();  // kills what is left
  TerminalChild(const TerminalChild&) = delete;
  TerminalChild& operator=(const TerminalChild&) = delete;

  void type(char key) const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  void resize(WindowSize size) const;
  // Everything that was written so far, escape sequences and all.
  [[nodiscard]] const std::string& screen();
  void forget() { screen_.clear(); }
  // Reads on until the child has ended.
  [[nodiscard]] Outcome wait();

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string screen_;
};

class Tool {
 public:
  [[nodiscard]] Outcome operator()(const std::vector<std::string>& arguments, const std::string& input = "") const;
  [[nodiscard]] std::unique_ptr<Child> start(const std::vector<std::string>& arguments) const;
  [[nodiscard]] std::unique_ptr<Child> start_shell(const std::string& script) const;
  [[nodiscard]] std::unique_ptr<TerminalChild> start_on_terminal(const std::vector<std::string>& arguments,
                                                                 WindowSize size = {}) const;

  [[nodiscard]] const std::filesystem::path& home() const { return home_.path(); }
  // NAME=VALUE for later calls.
  void set(const std::string& variable) { environment_.push_back(variable); }

 private:
  [[nodiscard]] std::vector<std::string> environment() const;
  TempDir home_;
  std::vector<std::string> environment_;
};

}  // namespace headrace::test
