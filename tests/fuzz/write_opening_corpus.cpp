// SPDX-License-Identifier: Apache-2.0
// Fills a folder with what fuzzing of openings starts from: write_opening_corpus FOLDER
//
// A profile of two files, one of a file, and an empty one.
#include <cstdio>
#include <filesystem>

#include "headrace/cache/opening_profile.h"

int main(int argc, char** argv) {
  using headrace::cache::OpeningProfile;
  if (argc != 2) {
    std::fputs("usage: write_opening_corpus FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  OpeningProfile profile;
  bool is_saved = profile.save(folder / "none").has_value();
  profile.put({.path = "a.arrow", .identity = {.size_bytes = 1 << 30}, .ranges = {{0, 4096}, {1 << 20, 4096}}});
  is_saved = is_saved && profile.save(folder / "one").has_value();
  profile.put({.path = "b/c.h5", .identity = {.size_bytes = 5000}, .ranges = {{4096, 904}}});
  is_saved = is_saved && profile.save(folder / "two").has_value();
  return is_saved ? 0 : 1;
}
