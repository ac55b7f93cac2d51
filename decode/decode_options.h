// SPDX-License-Identifier: Apache-2.0
// Options of every image decoder: limits against hostile files, and what to do with damaged ones.
#pragma once

#include <cstdint>

#include "headrace/decode/image.h"
#include "headrace/io/result.h"

namespace headrace::decode {

enum class Damage : std::uint8_t {
  // Any sign of damaged data is an error. The decoder goes on to the end of the file to find it, which takes most of
  // what cropping saves. (The others end with the last row of a crop, and do not notice what is damaged behind it.)
  kReject,
  kRepair,   // what the library repairs is taken, as PIL does; a file that ends early is an error
  kSalvage,  // also files that end early or break off in the middle: the part that is missing is black or grey
};

struct DecodeOptions {
  Damage damage = Damage::kRepair;
  // Turns a JPEG, PNG or WebP file upright as its EXIF orientation says. Off, as in torchvision's ImageFolder: PIL's
  // Image.open() leaves the orientation alone.
  bool apply_orientation = false;
  // Takes a file of 3 073 or 3 074 bytes that is nothing else for a record of CIFAR's binary version. Only its size
  // tells such a record, so a web page or a text of that size passes for one, too.
  bool cifar_records = false;
  // 100 M: three times the largest photographs of today; 300 MB decoded. Checked before anything is allocated.
  std::uint64_t pixels_max = 100'000'000;
  // 100: encoders write about 10 scans; each one costs a pass over the whole image, however few bytes it has.
  int scans_max = 100;
  // Pixels times scans of a JPEG of several scans. 10^9: the largest image in the 10 scans that encoders write. It
  // takes a thread 4 s (98 scans of 9990 x 9990, refused by this, took 36 s; 2026-11-20).
  std::uint64_t scanned_pixels_max = 1'000'000'000;
  // Lets headrace's own code decode the Huffman codes of a JPEG where that gives the same pixels and the same errors.
  // Off: libjpeg does it everywhere, to compare with.
  bool walk_scans = true;
};

// Errors: kInvalidArgument (over pixels_max), kCorrupt (no pixels at all).
[[nodiscard]] io::Status check_size(Size size, const DecodeOptions& options);

}  // namespace headrace::decode
