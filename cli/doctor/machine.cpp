// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/core.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "headrace/cli/doctor/doctor.h"
#include "headrace/cli/doctor/inotify.h"
#include "headrace/cli/doctor/kernel.h"
#include "headrace/cli/doctor/memory.h"
#include "headrace/cli/doctor/small_file.h"
#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/usable_cores.h"
#include "headrace/io/engine.h"
#include "headrace/io/environment.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

// Whether a seccomp filter applies to this process: "Seccomp: 2" in proc(5).
bool has_seccomp_filter() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Seccomp:", 0) == 0) return line.find('2') != std::string::npos;
  }
  return false;
}

Finding examine_io_uring() {
  Finding finding{.name = "io_uring"};
  const io::Result<std::unique_ptr<io::Engine>> engine = io::open_engine({.kind = io::EngineOptions::Kind::kUring});
  if (engine) {
    finding.health = Health::kGood;
    finding.text = "can be used";
    return finding;
  }
  finding.health = Health::kLimit;
  const std::uint64_t disabled = read_number("/proc/sys/kernel/io_uring_disabled");
  finding.text = "refused, so a thread pool takes its place: ";
  if (engine.error().os_errno == ENOSYS) {
    finding.text += "this kernel is built without it";
    finding.remedy = "install a kernel of your distribution that has CONFIG_IO_URING";
  } else if (disabled > 0) {
    finding.text += fmt::format("kernel.io_uring_disabled is {}", disabled);
    finding.remedy = "sysctl kernel.io_uring_disabled=0";
  } else if (has_seccomp_filter()) {
    finding.text += "a seccomp filter of the container forbids it";
    finding.remedy =
        "docker run --security-opt seccomp=unconfined, or a profile that allows io_uring_setup, "
        "io_uring_enter and io_uring_register";
  } else {
    finding.text += engine.error().message();
    finding.remedy = "dmesg | tail (as root) tells what refused it";
  }
  return finding;
}

Finding examine_descriptors() {
  constexpr rlim_t kEnough = 4096;  // reads in flight, connections and the segments of large tiers together
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  Finding finding{
      .name = "descriptors", .health = Health::kGood, .text = fmt::format("{} may be open", limit.rlim_cur)};
  if (limit.rlim_cur < kEnough) {
    finding.health = Health::kLimit;
    finding.remedy = "ulimit -n 65536 (systemd: LimitNOFILE=65536)";
  }
  return finding;
}

Finding examine_fuse_device() {
  Finding finding{.name = "/dev/fuse", .health = Health::kGood, .text = "can be opened"};
  if (::access("/dev/fuse", R_OK | W_OK) == 0) return finding;
  finding.health = Health::kMissing;
  if (errno == ENOENT) {
    finding.text = "missing: no mounts (the C++ reader, warm and read work)";
    finding.remedy = "modprobe fuse; in Docker: docker run --device /dev/fuse --cap-add SYS_ADMIN";
  } else {
    finding.text = "may not be opened by this user: no mounts";
    finding.remedy = "chmod 0666 /dev/fuse (as root), or the udev rule of the fuse3 package";
  }
  return finding;
}

fs::path find_program(const char* name) {
  const char* path = io::environment("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path candidate = fs::path(folder) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

Finding examine_allow_other() {
  Finding finding{.name = "--allow-other", .health = Health::kGood, .text = "can be used"};
  if (::geteuid() == 0) return finding;
  std::ifstream configuration("/etc/fuse.conf");
  for (std::string line; std::getline(configuration, line);) {
    if (line.rfind("user_allow_other", 0) == 0) return finding;
  }
  finding.health = Health::kInfo;
  finding.text = "not allowed for this user";
  finding.remedy = "echo user_allow_other >> /etc/fuse.conf (as root)";
  return finding;
}

bool kernel_knows_file_system(std::string_view name) {
  std::ifstream list("/proc/filesystems");
  for (std::string word; list >> word;) {
    if (word == name) return true;
  }
  return false;
}

Finding examine_overlay() {
  Finding finding{.name = "--overlay", .health = Health::kGood, .text = "can be used"};
  if (!kernel_knows_file_system("overlay")) {
    finding = {"--overlay", Health::kInfo, "no overlayfs in this kernel", "modprobe overlay"};
  } else if (::geteuid() != 0) {
    finding = {"--overlay", Health::kInfo, "needs root; Python before 3.14 asks the daemon once per open() without it"};
  }
  return finding;
}

Finding examine_cores() {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const unsigned usable = decode::usable_cores();
  Finding finding{.name = "cores", .health = Health::kGood, .text = fmt::format("{}", usable)};
  if (usable < static_cast<unsigned long>(online)) {
    finding.health = Health::kInfo;
    finding.text = fmt::format("{} of {}, limited by affinity or control group", usable, online);
    finding.remedy = "docker run --cpus, Slurm --cpus-per-task, Kubernetes resources.limits.cpu: give it more";
  }
  return finding;
}

Finding examine_container() {
  const bool kubernetes = io::environment("KUBERNETES_SERVICE_HOST") != nullptr;
  const bool docker = fs::exists("/.dockerenv");
  const bool podman = fs::exists("/run/.containerenv");
  const char* name = kubernetes ? "Kubernetes" : docker ? "Docker" : podman ? "Podman" : "none seen";
  return {.name = "container", .health = Health::kInfo, .text = name};
}

bool has_name(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  char room[4096];  // for the strings of one entry
  return ::getpwuid_r(user, &entry, room, sizeof room, &found) == 0 && found != nullptr;
}

}  // namespace

std::string_view name_of(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kInfo:
      return "info";
    case Health::kLimit:
      return "limit";
    case Health::kMissing:
      break;
  }
  return "missing";
}

Finding examine_fusermount(uid_t user) {
  Finding finding{.name = "fusermount3", .health = Health::kGood, .text = "not needed by root"};
  if (user == 0) return finding;
  const fs::path program = find_program("fusermount3");
  struct stat status {};
  finding.health = Health::kMissing;
  if (program.empty() || ::stat(program.c_str(), &status) != 0) {
    finding.text = "missing: only root can mount";
    finding.remedy = "apt install fuse3";
  } else if ((status.st_mode & S_ISUID) == 0) {
    finding.text = program.string() + " is not set-uid root: only root can mount";
    finding.remedy = "chmod u+s " + program.string() + " (as root)";
  } else if (!has_name(user)) {
    finding.text = fmt::format("{} mounts for no user without a name, and user {} has none", program.string(), user);
    finding.remedy = fmt::format("echo 'headrace:x:{}:{}::/:/usr/sbin/nologin' >> /etc/passwd (as root)", user, user);
  } else {
    finding.health = Health::kGood;
    finding.text = program.string();
  }
  return finding;
}

Finding examine_crops(decode::IndexSupport support, std::string_view version) {
  const std::string library = version.empty() ? "this libjpeg" : fmt::format("libjpeg-turbo {}", version);
  Finding finding{.name = "JPEG crops", .health = Health::kGood};
  switch (support) {
    case decode::IndexSupport::kWorks:
      finding.text = library + " is known and passed the check: crops begin within the file";
      return finding;
    case decode::IndexSupport::kUnknownLibrary:
      finding.text = library + " is not known: it decodes all that lies before a crop";
      break;
    case decode::IndexSupport::kFailedCheck:
      finding.text = library + " failed the check at the start: it decodes all that lies before a crop";
      break;
  }
  finding.health = Health::kLimit;
  finding.remedy = "build headrace with libjpeg-turbo 2.1 (Debian 12's), and run it with the same";
  return finding;
}

std::vector<Finding> examine_machine() {
  utsname names{};
  ::uname(&names);
  return {examine_kernel(names.release),
          examine_io_uring(),
          examine_descriptors(),
          examine_fuse_device(),
          examine_fusermount(::geteuid()),
          examine_allow_other(),
          examine_overlay(),
          examine_inotify_queue("/proc"),
          examine_inotify_watches("/proc"),
          examine_inotify_instances("/proc"),
          examine_memory(),
          examine_huge_pages("/sys"),
          examine_idle_reclaim("/sys"),
          examine_cores(),
          examine_crops(decode::index_support(), decode::libjpeg_turbo_version()),
          examine_container()};
}

}  // namespace headrace::cli
