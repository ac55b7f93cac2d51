// SPDX-License-Identifier: Apache-2.0
// Finds the kind of an image from the first bytes of its file. The name of the file does not matter.
//
//   if (detect_format(bytes) == ImageFormat::kPng) ...
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headrace::decode {

enum class ImageFormat : std::uint8_t {
  kUnknown,
  kJpeg,
  kPng,
  kBmp,    // uncompressed
  kWebp,   // not animated
  kNumpy,  // .npy of unsigned bytes: (height, width), (height, width, 1) or (height, width, 3)
  kCifar,  // one record of CIFAR's binary version: 1 or 2 label bytes and 3 x 32 x 32; DecodeOptions::cifar_records
};

// Never kCifar, which has no mark of its own.
[[nodiscard]] ImageFormat detect_format(std::span<const std::byte> bytes);
[[nodiscard]] bool has_size_of_cifar_record(std::span<const std::byte> bytes);
[[nodiscard]] std::string_view name_of(ImageFormat format);

}  // namespace headrace::decode
