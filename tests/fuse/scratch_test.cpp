// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/fuse/kernel/scratch_folder.h"
#include "headrace/fuse/mount.h"

#include "fuse/mounted.h"

namespace headrace::fuse::scratch_test {
namespace {

namespace fs = std::filesystem;
using headrace::test::TempDir;
using io::ErrorCode;
using test::difference;
using test::Mounted;
using test::need_fuse;
using test::need_root;
using test::read_file;

constexpr unsigned kSamples = 4;
constexpr std::size_t kSampleBytes = 10'000;

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  CAPTURE(path);
  REQUIRE(file);
}

// Ends the case where this kernel has no overlayfs that writes to the folder for temporary files.
void start_or_skip(Mounted& mounted, const fs::path& scratch) {
  mounted.options.scratch = scratch;
  mounted.open_store();
  const auto tried = Mount::start(mounted.store(), mounted.options);
  if (!tried && (tried.error().code == ErrorCode::kUnsupported || tried.error().os_errno == ENODEV)) {
    headrace::test::skip("no overlay that writes here: " + tried.error().message());
  }
  REQUIRE_MESSAGE(tried.has_value(), tried.error().message());
}

TEST_CASE("what is written below a mount lies in its scratch folder, and the source stays as it is") {
  need_fuse();
  need_root();
  Mounted mounted;
  const TempDir scratch;
  const TempDir copy;
  mounted.write_samples(kSamples, kSampleBytes);
  fs::permissions(mounted.source().path(), fs::perms::all);
  mounted.options.allow_other = true;
  fs::copy(mounted.source().path(), copy.path(), fs::copy_options::recursive);
  start_or_skip(mounted, scratch.path() / "new/folder");
  mounted.start();
  CHECK(mounted.mount().stats().overlay);
  const fs::path upper = scratch.path() / "new/folder/upper";
  const std::string sample = mounted.file(Mounted::sample_name(1));
  struct stat root {};
  REQUIRE(::stat(mounted.path().c_str(), &root) == 0);
  CHECK((root.st_mode & 07777U) == 0777);

  write(mounted.path() / "labels.cache", "new");
  write(mounted.path() / "a/cache-1.arrow", "below");
  write(sample, "instead");
  fs::remove(mounted.file(Mounted::sample_name(2)));

  CHECK(read_file(upper / "labels.cache") == "new");
  CHECK(read_file(upper / "a/cache-1.arrow") == "below");
  CHECK(read_file(sample) == "instead");
  CHECK_FALSE(fs::exists(mounted.file(Mounted::sample_name(2))));
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
  for (unsigned i = 0; i < kSamples; ++i) {
    CHECK(read_file(mounted.source().path() / Mounted::sample_name(i)) == Mounted::sample_content(i, kSampleBytes));
  }
  CHECK_FALSE(fs::exists(mounted.source().path() / "labels.cache"));
  CHECK_FALSE(fs::exists(mounted.source().path() / "a/cache-1.arrow"));

  mounted.stop();
  mounted.start();
  CHECK(read_file(mounted.file("labels.cache")) == "new");
  CHECK(read_file(mounted.file("a/cache-1.arrow")) == "below");
  CHECK(read_file(sample) == "instead");
  CHECK(read_file(mounted.file(Mounted::sample_name(3))) == Mounted::sample_content(3, kSampleBytes));
}

TEST_CASE("samples that are read below an overlay that can be written are pushed, and stay out of the scratch folder") {
  need_fuse();
  need_root();
  Mounted mounted;
  const TempDir scratch;
  mounted.write_samples(kSamples, kSampleBytes);
  start_or_skip(mounted, scratch.path());
  mounted.options.ram_bytes = 64 << 20;
  mounted.start();
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  for (unsigned i = 0; i < kSamples; ++i) {
    CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kSampleBytes));
  }
  CHECK(mounted.mount().stats().pushed_samples == kSamples);
  for (const char* folder : {"a", "b"}) CHECK(difference(mounted.source().path() / folder, mounted.file(folder)) == "");
  CHECK(fs::is_empty(scratch.path() / "upper"));
}

TEST_CASE("a scratch folder is one mount's at a time") {
  need_fuse();
  need_root();
  Mounted mounted;
  Mounted other;
  const TempDir scratch;
  mounted.write_samples(kSamples, kSampleBytes);
  other.write_samples(kSamples, kSampleBytes);
  start_or_skip(mounted, scratch.path());
  mounted.start();
  other.options.scratch = scratch.path();
  other.open_store();
  {
    const auto refused = Mount::start(other.store(), other.options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kBusy);
    CHECK(refused.error().message().find(scratch.path().string()) != std::string::npos);
  }
  mounted.stop();
  other.start();
  write(other.path() / "labels.cache", "new");
  CHECK(read_file(other.file("labels.cache")) == "new");
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

TEST_CASE("a scratch folder is its owner's alone, and one of an earlier version becomes so") {
  const TempDir dir;
  const fs::path path = dir.path() / "made/here";
  REQUIRE(ScratchFolder::take(path));
  CHECK(mode_of(path) == 0700);
  CHECK(mode_of(dir.path() / "made") == 0755);
  fs::permissions(path, fs::perms(0755));
  REQUIRE(ScratchFolder::take(path));
  CHECK(mode_of(path) == 0700);
  fs::permissions(path, fs::perms(0755));
  dir.write("made/here/results.csv", "1");
  const auto shared = ScratchFolder::take(path);
  REQUIRE_FALSE(shared);
  CHECK(shared.error().code == ErrorCode::kInvalidArgument);
  CHECK(mode_of(path) == 0755);
}

TEST_CASE("a scratch folder of another user, or one that others may write to, is refused and left as it is") {
  need_root();
  const TempDir dir;
  const TempDir victim;
  victim.write("one/two/file", "kept");
  const fs::path path = dir.path() / "scratch";
  fs::create_directory(path);
  SUBCASE("of another user") {
    REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  }
  SUBCASE("open to others") {
    fs::permissions(path, fs::perms(0777));
  }
  SUBCASE("with a link in the place of work") {
    fs::create_directory_symlink(victim.path(), path / "work");
  }
  SUBCASE("with a link in the place of upper") {
    fs::create_directory_symlink(victim.path(), path / "upper");
  }
  SUBCASE("by a link of another user") {
    fs::remove(path);
    fs::create_directory_symlink(victim.path(), path);
    REQUIRE(::lchown(path.c_str(), 65534, 65534) == 0);
  }
  const auto refused = ScratchFolder::take(path);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find(path.string()) != std::string::npos);
  CHECK(read_file(victim.path() / "one/two/file") == "kept");
  CHECK_FALSE(fs::exists(victim.path() / "upper"));
}

TEST_CASE("a scratch folder that overlayfs does not write to is named") {
  need_fuse();
  need_root();
  Mounted mounted;
  Mounted other;
  const TempDir scratch;
  mounted.write_samples(1, kSampleBytes);
  other.write_samples(1, kSampleBytes);
  start_or_skip(mounted, scratch.path());
  mounted.start();
  other.options.scratch = mounted.path() / "scratch";  // on an overlay
  other.open_store();
  const auto refused = Mount::start(other.store(), other.options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  CHECK(refused.error().message().find(other.options.scratch.string()) != std::string::npos);
}

}  // namespace
}  // namespace headrace::fuse::scratch_test
