// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/small_file.h"

#include <fstream>

namespace headrace::cli {

std::string read_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace headrace::cli
