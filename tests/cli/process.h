// SPDX-License-Identifier: Apache-2.0
// Runs the headrace program as a user would, and says what came of it.
//
//   Tool tool;                                        // its own runtime, cache and log folders
//   const Outcome outcome = tool({"order", source, "--order", "sequential"});
//   CHECK(outcome.status == 0);
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/temp_dir.h"

namespace headrace::test {

struct Outcome {
  int status = -1;  // exit status; 128 + n when signal n ended it
  std::string output;
  std::string errors;
};

// A child with its output in files, so that a daemon that it leaves behind cannot keep a pipe open.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
        const std::string& input);
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

class Tool {
 public:
  [[nodiscard]] Outcome operator()(const std::vector<std::string>& arguments, const std::string& input = "") const;
  [[nodiscard]] std::unique_ptr<Child> start(const std::vector<std::string>& arguments) const;

  [[nodiscard]] const std::filesystem::path& home() const { return home_.path(); }
  // NAME=VALUE for later calls.
  void set(const std::string& variable) { environment_.push_back(variable); }

 private:
  [[nodiscard]] std::vector<std::string> environment() const;
  TempDir home_;
  std::vector<std::string> environment_;
};

}  // namespace headrace::test
