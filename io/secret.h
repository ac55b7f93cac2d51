// SPDX-License-Identifier: Apache-2.0
// Text that must not be seen: the secret half of an access key, a session token.
//
//   const Secret key = Secret::take(text);   // `text` is overwritten
//   sign(key.bytes());
//
// The memory is left out of core files (MADV_DONTDUMP), and it is overwritten before it is given back. There is no
// operator<< and no formatter on purpose: a secret that is logged by mistake does not compile.
//
// Thread-safety: as a plain value. Ownership: copies share one memory, which lives as long as the last of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace headrace::io {

class Secret {
 public:
  Secret() = default;  // empty
  // Copies the text; whoever has it elsewhere overwrites it there.
  explicit Secret(std::string_view text);
  // Copies the text and overwrites it where it was.
  [[nodiscard]] static Secret take(std::string& text);

  [[nodiscard]] bool empty() const { return memory_ == nullptr; }
  // Lasts as long as this secret.
  [[nodiscard]] std::string_view bytes() const;

 private:
  struct Memory;
  std::shared_ptr<const Memory> memory_;
};

// Overwrites what a string holds, and empties it.
void wipe(std::string& text);

// Overwrites what functions that have returned left below their caller on this thread's stack. The dynamic linker saves
// the vector registers there when it looks a function up for the first time, and these may hold what was copied last.
void wipe_stack();

}  // namespace headrace::io
