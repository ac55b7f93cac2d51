// SPDX-License-Identifier: Apache-2.0
// Packs of bytes that a test made, and what their maps say.
//
//   const Packs packs;
//   const auto map = packs.map("a.tar", bytes);
//   packs.refuse("a.tar", bytes.substr(0, 600), "cut off");
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/cache/record_map.h"
#include "headrace/cache/record_set.h"
#include "headrace/io/unique_fd.h"

#include "cache/put.h"
#include "support/temp_dir.h"

namespace headrace::test {

class Packs {
 public:
  Packs() : folder_(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  [[nodiscard]] io::Result<cache::RecordMap> map(const std::string& name, const std::string& bytes,
                                                 std::string_view spec = "auto") const {
    dir_.write(name, bytes);
    return cache::open_record_map(folder_.get(), name, spec);
  }
  void write(const std::string& name, const std::string& bytes) const { dir_.write(name, bytes); }
  [[nodiscard]] int folder() const { return folder_.get(); }
  [[nodiscard]] const std::filesystem::path& path() const { return dir_.path(); }
  // The error is one line that names the file.
  void refuse(const std::string& name, const std::string& bytes, std::string_view why,
              std::string_view spec = "auto") const {
    const auto map = this->map(name, bytes, spec);
    REQUIRE_FALSE(map.has_value());
    const std::string message = map.error().message();
    INFO(message);
    CHECK(message.find(why) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }

 private:
  TempDir dir_;
  io::UniqueFd folder_;
};

// One pack of one map.
inline std::shared_ptr<const cache::RecordSet> set_of(cache::EntryId entry, cache::RecordMap map) {
  std::vector<cache::Pack> packs;
  packs.push_back({.entry = entry, .map = std::move(map)});
  return std::make_shared<const cache::RecordSet>(cache::RecordSet::make(std::move(packs)).value());
}

inline void check_extent(const cache::RecordMap& map, std::uint64_t record, std::uint64_t offset,
                         std::uint32_t length) {
  CHECK(map.extent(record).offset == offset);
  CHECK(map.extent(record).length == length);
}

}  // namespace headrace::test
