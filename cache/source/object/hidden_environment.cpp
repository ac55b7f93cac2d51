// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/hidden_environment.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "headrace/cache/source/object/signature.h"
#include "headrace/io/secret.h"

namespace headrace::cache {
namespace {

constexpr std::array<std::string_view, 3> kSecretVariables = {
    "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=", "AWS_CONTAINER_AUTHORIZATION_TOKEN="};

// The same text has the same hash: `headrace mount` compares what /proc says of the environment of another mount.
void overwrite_with_hash(char* text, std::size_t size) {
  const std::string hash = sha256_hex({text, size});
  for (std::size_t i = 0; i < size; ++i) text[i] = hash[i % hash.size()];
}

}  // namespace

void hide_secrets_of_environment() {
  // getenv() and the programs that are started find them here, up to what libraries do when the program ends. So
  // nothing gives them back.
  static std::vector<io::Secret>& hidden = *new std::vector<io::Secret>;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    for (const std::string_view name : kSecretVariables) {
      if (!text.starts_with(name) || text.size() == name.size()) continue;
      hidden.emplace_back(std::string_view(text.data(), text.size() + 1));  // with the NUL
      overwrite_with_hash(*variable + name.size(), text.size() - name.size());
      *variable = const_cast<char*>(hidden.back().bytes().data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      break;
    }
  }
}

}  // namespace headrace::cache
