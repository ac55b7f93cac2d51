// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/inodes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/scanner.h"
#include "headrace/io/unique_fd.h"

#include "fuse/mounted.h"

namespace headrace::fuse::inodes_test {
namespace {

namespace fs = std::filesystem;
using cache::EntryId;
using cache::Identity;
using test::Mounted;
using test::need_fuse;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A catalog of one sample, and its numbers.
struct Numbered {
  Numbered() {
    source.write_samples(1, 10);
    source.open_store();
    entry = source.store().catalog().sample_entry(0);
    first = source.store().catalog().identity(entry);
    linked = first;
    linked.ctime_ns += 1;
    inodes.emplace(source.store().catalog());
    number = inodes->of(entry);
  }
  // As ChangedFiles does.
  void change(const Identity& now) { inodes->set(entry, version_of(inodes->of(entry)) + 1, now); }

  Mounted source;
  EntryId entry = 0;
  Identity first;
  Identity linked;  // the same file after somebody has made a link to it, or touched it
  std::optional<Inodes> inodes;
  std::uint64_t number = 0;  // the first one
};

TEST_CASE("who opened a file before its times moved goes on if its bytes are what they were") {
  Numbered file;
  CHECK(file.inodes->give(file.number, file.first, bytes_of("0123456789")));
  file.change(file.linked);
  CHECK(file.inodes->of(file.entry) != file.number);
  CHECK(file.inodes->version_of_file(file.number) == file.first);
  CHECK_FALSE(file.inodes->give(file.number, file.linked, bytes_of("0123456780")));
  CHECK_FALSE(file.inodes->give(file.number, file.linked, {}));  // nobody can tell
  CHECK(file.inodes->give(file.number, file.linked, bytes_of("0123456789")));
  CHECK(file.inodes->stands_for(file.number, file.linked));
  CHECK(file.inodes->give(file.inodes->of(file.entry), file.linked, bytes_of("0123456789")));
}

TEST_CASE("a number that nothing went out under stands for what the file is now, and then for nothing else") {
  Numbered file;
  file.change(file.linked);
  CHECK(file.inodes->give(file.number, file.linked, bytes_of("abcdefghij")));
  CHECK_FALSE(file.inodes->give(file.number, file.first, bytes_of("0123456789")));  // read late
  Identity longer = file.linked;
  longer.size_bytes += 1;
  Numbered other;
  other.change(longer);
  CHECK_FALSE(other.inodes->give(other.number, longer, bytes_of("abcdefghijk")));  // the kernel knows another size
}

TEST_CASE("of what a process before this one gave out nothing is known but the version") {
  Numbered file;
  file.inodes->note_given_before();
  CHECK(file.inodes->give(file.number, file.first, {}));
  file.change(file.linked);
  CHECK_FALSE(file.inodes->give(file.number, file.linked, bytes_of("0123456789")));
  Numbered seen;
  seen.inodes->note_given_before();
  CHECK(seen.inodes->give(seen.number, seen.first, bytes_of("0123456789")));  // all bytes of that version
  seen.change(seen.linked);
  CHECK(seen.inodes->give(seen.number, seen.linked, bytes_of("0123456789")));
}

TEST_CASE("who may not read a file any more gets nothing of its next version, whether he got something before or not") {
  for (const bool got_something : {false, true}) {
    Numbered file;
    if (got_something) CHECK(file.inodes->give(file.number, file.first, bytes_of("0123456789")));
    file.inodes->let_nobody_go_on(file.entry);
    CHECK(file.inodes->give(file.number, file.first, bytes_of("0123456789")));  // as the kernel let him in
    file.change(file.linked);
    CHECK_FALSE(file.inodes->give(file.number, file.linked, bytes_of("0123456789")));
    const std::uint64_t second = file.inodes->of(file.entry);
    CHECK(file.inodes->give(second, file.linked, bytes_of("0123456789")));
    file.linked.ctime_ns += 1;
    file.change(file.linked);
    CHECK(file.inodes->give(second, file.linked, bytes_of("0123456789")));
  }
}

TEST_CASE("a number is remembered through as many changes as a reader may have the file open for") {
  Numbered file;
  CHECK(file.inodes->give(file.number, file.first, bytes_of("0123456789")));
  for (int i = 0; i < 8; ++i) {
    file.linked.ctime_ns += 1;
    file.change(file.linked);
  }
  CHECK(file.inodes->give(file.number, file.linked, bytes_of("0123456789")));
  file.change(file.first);
  CHECK_FALSE(file.inodes->version_of_file(file.number));
}

// Reads half of a file of 1 MiB, changes the source, tells the store, and reads the rest through the same descriptor.
std::string read_rest_after(Mounted& mounted, const std::function<void(const fs::path&)>& change) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  mounted.write_samples(1, kBytes);
  mounted.options.ram_bytes = 0;
  mounted.start();
  const io::UniqueFd file(::open(mounted.file(Mounted::sample_name(0)).c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file.valid());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);  // the kernel asks for what is read alone
  std::string content(kBytes, ' ');
  REQUIRE(::pread(file.get(), content.data(), kBytes / 2, 0) == static_cast<ssize_t>(kBytes / 2));
  change(mounted.source().path() / Mounted::sample_name(0));
  const EntryId entry = mounted.store().catalog().sample_entry(0);
  REQUIRE(mounted.store().look_at(entry).has_value());
  const ssize_t rest = ::pread(file.get(), content.data() + kBytes / 2, kBytes / 2, kBytes / 2);
  content.resize(kBytes / 2 + static_cast<std::size_t>(std::max<ssize_t>(rest, 0)));
  return content;
}

TEST_CASE("who has half read a file to which a link is made, or whose mode is changed, reads the rest of it") {
  need_fuse();
  Mounted mounted;
  std::function<void(const fs::path&)> change;
  SUBCASE("a link") {
    change = [](const fs::path& file) { fs::create_hard_link(file, file.string() + ".link"); };
  }
  SUBCASE("a mode that lets in others, too") {
    change = [](const fs::path& file) { REQUIRE(::chmod(file.c_str(), 0666) == 0); };
  }
  SUBCASE("a copy in its place") {
    change = [](const fs::path& file) {
      fs::copy_file(file, file.string() + ".new");
      fs::rename(file.string() + ".new", file);
    };
  }
  const std::string content = read_rest_after(mounted, change);
  CHECK((content == Mounted::sample_content(0, std::size_t{1} << 20)));
}

TEST_CASE("who has half read a file whose bytes change under its size and time of modification gets no new ones") {
  need_fuse();
  Mounted mounted;
  const std::string content = read_rest_after(mounted, [](const fs::path& file) {
    struct stat before {};
    REQUIRE(::stat(file.c_str(), &before) == 0);
    const io::UniqueFd out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(::pwrite(out.get(), "new bytes", 9, 600'000) == 9);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    REQUIRE(::futimens(out.get(), times) == 0);
  });
  CHECK(errno == ESTALE);
  CHECK((content == Mounted::sample_content(0, std::size_t{1} << 20).substr(0, content.size())));
  CHECK(content.size() == std::size_t{1} << 19);
}

TEST_CASE("a scan of a file system whose inode numbers may not last leaves them out") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 10'000);
  mounted.start();
  const io::UniqueFd folder(::open(mounted.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto tree = io::scan_tree(folder.get(), {.threads = 1});
  REQUIRE(tree.has_value());
  for (const io::ScannedDirectory& directory : tree->directories) {
    CHECK(directory.attributes.inode == 0);
    for (const io::ScannedEntry& entry : directory.entries) CHECK(entry.attributes.inode == 0);
  }
  CHECK(mounted.store().catalog().identity(cache::kRootEntry).inode != 0);
}

}  // namespace
}  // namespace headrace::fuse::inodes_test
