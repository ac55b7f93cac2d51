// SPDX-License-Identifier: Apache-2.0
// Draws orders for a script: each line of the input is "SAMPLES EPOCH SPEC"; the answer is one line of indices
// separated by spaces, or "error: ...".
#include <iostream>
#include <sstream>
#include <string>

#include "headrace/cache/order.h"

namespace {

std::string answer(const std::string& line) {
  std::istringstream words(line);
  std::uint64_t sample_count = 0;
  std::uint64_t epoch = 0;
  std::string spec;
  if (!(words >> sample_count >> epoch >> spec)) return "error: SAMPLES EPOCH SPEC expected";
  const auto order = headrace::cache::make_order(spec, {.sample_count = sample_count, .find_sample = nullptr});
  if (!order) return "error: " + order.error().message();
  const auto samples = (*order)->epoch(epoch);
  if (!samples) return "error: " + samples.error().message();
  std::ostringstream text;
  for (const auto sample : *samples) text << sample << ' ';
  return text.str();
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
  return 0;
}
