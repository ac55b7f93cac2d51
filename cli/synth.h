// SPDX-License-Identifier: Apache-2.0
// Makes an ImageFolder data set of JPEGs with the statistics of a real photo data set: sizes, dimensions, subsampling,
// and content whose decoding costs what photographs cost.
//
//   auto report = synth_data_set({.dir = "/tmp/photos", .files = 4000, .classes = 100, .seed = 1});
//
// The same options give the same bytes. Thread-safety: synth_data_set() from any thread; it uses all cores.
#pragma once

#include <cstdint>
#include <filesystem>

#include "headrace/io/result.h"

namespace headrace::cli {

struct SynthOptions {
  std::filesystem::path dir;  // made when missing; must be empty
  std::uint32_t files = 4000;
  std::uint32_t classes = 100;  // class folders; file i is of class i % classes
  std::uint64_t seed = 1;
  std::filesystem::path from_folder = {};  // cuts the samples out of the JPEGs below it; empty: paints scenes
};

struct SynthReport {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Errors: kInvalidArgument (no files or classes, `dir` not empty, no usable JPEG in from_folder), kNotFound,
// kPermission, kNoSpace, kSystem. What was written before an error stays.
[[nodiscard]] io::Result<SynthReport> synth_data_set(const SynthOptions& options);

}  // namespace headrace::cli
