// SPDX-License-Identifier: Apache-2.0
// Words as execve(2) and posix_spawn(3) want them: pointers, and nullptr at the end.
//
//   const ArgumentList arguments({"memcached", "-U", "0"});
//   ::posix_spawnp(&child, "memcached", nullptr, nullptr, arguments.pointers(), environ);
//
// Thread-safety: as a plain value. Ownership: holds the words.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace headrace::cli {

class ArgumentList {
 public:
  explicit ArgumentList(std::vector<std::string> words) : words_(std::move(words)) {
    pointers_.reserve(words_.size() + 1);
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;
  [[nodiscard]] char* const* pointers() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace headrace::cli
