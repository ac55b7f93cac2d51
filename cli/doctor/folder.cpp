// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>

#include "headrace/cli/doctor/doctor.h"
#include "headrace/cli/show/figures.h"
#include "headrace/io/file_system.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

Finding examine_file_system(const std::string& name, std::string_view role, int fd) {
  const io::FileSystemTraits traits = io::describe_file_system(fd);
  Finding finding{.name = name, .health = Health::kGood, .text = traits.name};
  if (traits.in_memory) {
    finding.text += ", in memory";
  } else if (traits.cache_mode == io::CacheMode::kBuffered) {
    finding.text += ", read through the page cache (no direct reads)";
  } else {
    finding.text += ", direct reads";
  }
  if (role == "source" && !traits.has_lasting_inodes) {
    finding.text += "; inode numbers may not last there: size and times alone tell versions of a file apart";
  }
  if (traits.rotational)
    finding.text +=
        role == "source" ? ", hard disk: reads ahead are sorted by extent once they are slow" : ", hard disk";
  return finding;
}

Finding examine_room(const std::string& name, std::string_view role, int fd) {
  struct statvfs room {};
  ::fstatvfs(fd, &room);
  const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
  const std::uint64_t whole = std::uint64_t{room.f_blocks} * room.f_frsize;
  Finding finding{.name = name,
                  .health = Health::kGood,
                  .text = fmt::format("{} free of {}", format_size(free), format_size(whole))};
  if (role == "tier" && free < whole / 20) {
    finding.health = Health::kLimit;
    finding.text += ": the file system is nearly full, so the tier may not reach its size";
    finding.remedy = "remove files there, or give the tier a smaller size";
  }
  return finding;
}

}  // namespace

std::vector<Finding> examine_folder(std::string_view role, const std::filesystem::path& folder) {
  const std::string name = fmt::format("{} {}", role, folder.string());
  io::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool to_be_made = !fd.valid() && errno == ENOENT && role == "tier";
  if (to_be_made)
    fd = io::UniqueFd(::open((folder / "..").lexically_normal().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return {{.name = name,
             .health = Health::kMissing,
             .text = std::strerror(errno),  // NOLINT(concurrency-mt-unsafe)
             .remedy = to_be_made ? fmt::format("mkdir -p {}", folder.parent_path().string()) : std::string()}};
  }
  std::vector<Finding> findings = {examine_file_system(name, role, fd.get()), examine_room(name, role, fd.get())};
  if (to_be_made) findings.front().text += "; the folder is made when it is first used";
  return findings;
}

}  // namespace headrace::cli
