// SPDX-License-Identifier: Apache-2.0
// Makes an ImageFolder data set of JPEG files with the statistics of a real photo data set: sizes, dimensions,
// subsampling, and content that costs as much to decode as photographs do.
//
//   auto report = synth_data_set({.dir = "/tmp/photos", .files = 4000, .classes = 100, .seed = 1});
//
// The same options give the same bytes. Thread-safety: synth_data_set() from any thread. It uses all cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "headrace/io/result.h"

namespace headrace::cli {

struct SynthOptions {
  std::filesystem::path dir;  // made when missing; must be empty
  std::uint32_t files = 4000;
  std::uint32_t classes = 100;  // class folders; file i is of class i % classes
  std::uint64_t seed = 1;
  std::filesystem::path from_folder = {};   // the samples are cut out of the JPEGs below it; empty: scenes are painted
  std::function<bool()> is_cancelled = {};  // asked before each file, by several threads at once
};

struct SynthReport {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Errors: kInvalidArgument (no files or classes, `dir` not empty, no usable JPEG in from_folder), kNotFound,
// kPermission, kNoSpace, kCancelled, kSystem. After an error `dir` is empty or missing again, as it was.
[[nodiscard]] io::Result<SynthReport> synth_data_set(const SynthOptions& options);

}  // namespace headrace::cli
