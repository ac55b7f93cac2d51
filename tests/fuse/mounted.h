// SPDX-License-Identifier: Apache-2.0
// A data set and a mount of it that live for one test case; nothing stays mounted whatever the case does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "headrace/cache/store.h"
#include "headrace/fuse/mount.h"

#include "support/temp_dir.h"

namespace headrace::fuse::test {

using headrace::test::TempDir;

// Ends the case as skipped where FUSE cannot be used at all.
void need_fuse();
void need_root();

class Mounted {
 public:
  Mounted();
  ~Mounted();  // unmounts

  [[nodiscard]] const TempDir& source() const { return source_; }
  [[nodiscard]] const std::filesystem::path& path() const { return options.mountpoint; }
  [[nodiscard]] std::string file(std::string_view relative) const { return (path() / relative).string(); }

  // `count` files of `bytes` in two folders, named so that the catalog lists them in the order of their numbers.
  void write_samples(unsigned count, std::size_t bytes);
  [[nodiscard]] static std::string sample_name(unsigned number);
  [[nodiscard]] static std::string sample_content(unsigned number, std::size_t bytes);

  // Opens the store over the source, and mounts. Fails the case when that fails.
  void start();
  void open_store();
  void stop();
  [[nodiscard]] Mount& mount() { return *mount_; }
  [[nodiscard]] cache::Store& store() const { return *store_; }

  [[nodiscard]] std::uint64_t requests(std::string_view name) const;
  [[nodiscard]] std::uint64_t requests() const { return mount_->stats().request_total; }
  // Waits until the mount's own listing and pushing have come to rest: no request for a while.
  void settle();

  MountOptions options;  // set before start()
  // What the source is read with; empty: as the store sees fit. Set before start().
  std::function<io::Result<std::unique_ptr<io::Engine>>()> make_source_engine;

 private:
  TempDir source_;
  TempDir mountpoint_;
  int source_fd_ = -1;
  std::unique_ptr<cache::Store> store_;
  std::unique_ptr<Mount> mount_;
};

// Runs `round` until it returns true, at most five times: the kernel may drop pages that lie idle at any moment
// (DAMON's proactive reclaim), and then a count of requests is another one. Each round makes its own mount. Fails the
// case when no round returns true. A sanitizer gives the kernel much more time: there one round runs, and is not
// judged.
void until_pages_stay(const std::function<bool()>& round);
// open, fstat, read, close; empty with errno set when one fails.
[[nodiscard]] std::string read_file(const std::string& path);
// Every difference between the two trees: names, types, modes, owners, sizes, times, links, contents. Empty: equal.
[[nodiscard]] std::string difference(const std::filesystem::path& expected, const std::filesystem::path& actual);

}  // namespace headrace::fuse::test
