// SPDX-License-Identifier: Apache-2.0
// What every image decoder obeys: limits against hostile files, and what to do with damaged ones.
#pragma once

#include <cstdint>

#include "headrace/decode/image.h"
#include "headrace/io/result.h"

namespace headrace::decode {

enum class Damage : std::uint8_t {
  // (What a crop does not look at is not decoded: damage behind the last row of the crop goes unnoticed.)
  kReject,   // any sign of damaged data is an error
  kRepair,   // what the library repairs is taken, as PIL does; a file that ends early is an error
  kSalvage,  // also files that end early or break off in the middle: the part that is missing is black or grey
};

struct DecodeOptions {
  Damage damage = Damage::kRepair;
  bool apply_orientation = true;  // EXIF orientation of a JPEG; PIL's Image.open() leaves it alone
  // Takes a file of 3 073 or 3 074 bytes that is nothing else for a record of CIFAR's binary version. Only its size tells
  // such a record, so a web page or a text of that size passes for one, too.
  bool cifar_records = false;
  // 100 M: three times the largest photographs of today; 300 MB decoded. Checked before anything is allocated.
  std::uint64_t pixels_max = 100'000'000;
  // 100: encoders write about 10 scans; each one costs a pass over the whole image, however few bytes it has.
  int scans_max = 100;
};

// Errors: kInvalidArgument (over pixels_max), kCorrupt (no pixels at all).
[[nodiscard]] io::Status check_size(Size size, const DecodeOptions& options);

}  // namespace headrace::decode
