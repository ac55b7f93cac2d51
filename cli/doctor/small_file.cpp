// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/small_file.h"

#include <cstdlib>
#include <fstream>

namespace headrace::cli {

std::string read_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::uint64_t read_number(const std::filesystem::path& file) {
  return std::strtoull(read_line(file).c_str(), nullptr, 10);
}

}  // namespace headrace::cli
