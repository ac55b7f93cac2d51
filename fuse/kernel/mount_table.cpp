// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/mount_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include <poll.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/fuse/channel.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/log.h"
#include "headrace/io/process_state.h"

namespace headrace::fuse {
namespace fs = std::filesystem;
using io::ErrorCode;
using io::Result;
using io::Status;

namespace {

// mountinfo writes blanks and backslashes in paths as \040 and the like.
std::string unescape_octal(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain.push_back(static_cast<char>(std::stoi(std::string(text.substr(i + 1, 3)), nullptr, 8)));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// One line: id parent major:minor root PATH options [optional...] - TYPE SOURCE super-options (proc(5)).
MountEntry parse_line(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.size() < 5 || std::distance(dash, fields.end()) < 3) return {};
  const std::string options = std::distance(dash, fields.end()) > 3 ? *(dash + 3) : std::string();
  return {unescape_octal(fields[4]), fields[2], *(dash + 1), unescape_octal(*(dash + 2)), options, fields[3]};
}

std::string mountinfo_of_this_process() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

// fuse(4) writes user_id=N, the user who mounted.
std::optional<uid_t> user_in(const std::string& options) {
  constexpr std::string_view kName = "user_id=";
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');) {
    uid_t user = 0;
    if (!word.starts_with(kName)) continue;
    const char* const end = word.data() + word.size();
    if (std::from_chars(word.data() + kName.size(), end, user).ptr == end) return user;
  }
  return std::nullopt;
}

enum class Pulse : std::uint8_t {
  kAnswers,
  kDead,    // the connection has ended
  kSilent,  // it has not, but nobody answers: each process was killed while one of them waited for its own mount
};

// A mount answers statfs from its catalog at once, one whose worker is being replaced within two seconds.
constexpr std::chrono::seconds kPatience{5};

// statfs is never answered from the kernel's caches. A thread that waits in vain goes with the connection, or with the
// process.
Pulse pulse_of(const fs::path& path, std::chrono::milliseconds patience = kPatience) {
  std::promise<int> asked;
  std::future<int> answer = asked.get_future();
  std::thread asking([path, asked = std::move(asked)]() mutable {
    struct statfs ignored {};
    asked.set_value(::statfs(path.c_str(), &ignored) == 0 ? 0 : errno);
  });
  if (answer.wait_for(patience) != std::future_status::ready) {
    asking.detach();
    return Pulse::kSilent;
  }
  asking.join();
  const int failure = answer.get();
  return failure == ENOTCONN || failure == ECONNABORTED ? Pulse::kDead : Pulse::kAnswers;
}

// Readers of a connection that lives unanswered wait for ever, also once it is unmounted.
void abort_silent(const fs::path& path) {
  const std::vector<MountEntry> mounts = mounts_at(path);
  const auto below = std::find_if(mounts.rbegin(), mounts.rend(),
                                  [](const MountEntry& entry) { return entry.is_headrace() && !entry.is_overlay(); });
  if (below == mounts.rend()) return;
  io::log_warning("mount point {}: nobody answers; the connection ends", path.string());
  abort_connection(path, below->device);
}

Status run_fusermount(const fs::path& path) {
  std::string target = path.string();
  std::array<const char*, 6> arguments = {"fusermount3", "-u", "-z", "--", target.c_str(), nullptr};
  pid_t child = 0;
  const int spawned =
      ::posix_spawnp(&child, "fusermount3", nullptr, nullptr, const_cast<char* const*>(arguments.data()), environ);
  if (spawned != 0) return io::system_error(spawned, "run fusermount3");
  int exit_status = 0;
  while (::waitpid(child, &exit_status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0) return {};
  return io::make_error(ErrorCode::kPermission,
                        "unmount " + target + ": only who made this mount, or root, may end it");
}

Status detach(const MountEntry& entry, const fs::path& path) {
  if (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno == EINVAL) return {};  // EINVAL: gone already
  const int failure = errno;
  if (failure == EPERM && entry.fs_type != "overlay") return run_fusermount(path);
  return io::system_error(failure, "unmount " + path.string());
}

// Unmounts from the top while `more` says so of what is mounted at `path`.
Status detach_while(const fs::path& path, const std::function<bool(const std::vector<MountEntry>&)>& more) {
  // 16: an overlay, its mount and dead ones below them; more would mean that unmounting has no effect.
  for (int round = 0; round < 16; ++round) {
    const std::vector<MountEntry> mounts = mounts_at(path);
    if (mounts.empty() || !more(mounts)) return {};
    HEADRACE_TRY_DO(detach(mounts.back(), path));
  }
  return io::make_error(ErrorCode::kBusy, "unmount " + path.string());
}

Status detach_ours(const fs::path& path) {
  return detach_while(path, [](const auto& mounts) { return mounts.back().is_headrace(); });
}

bool is_ours_at(const fs::path& path) {
  const std::vector<MountEntry> mounts = mounts_at(path);
  return std::any_of(mounts.begin(), mounts.end(), [](const MountEntry& entry) { return entry.is_headrace(); });
}

Status check_empty(const fs::path& path) {
  std::error_code failure;
  const bool empty = fs::is_empty(path, failure);
  if (failure) return io::system_error(failure.value(), "mount point " + path.string());
  if (!empty) return io::make_error(ErrorCode::kInvalidArgument, "mount point " + path.string(), ENOTEMPTY);
  return {};
}

}  // namespace

bool MountEntry::is_headrace() const {
  return is_overlay() || fs_type == "fuse." + std::string(kSubtype);
}

bool MountEntry::is_overlay() const {
  return fs_type == "overlay" && source == kOverlaySource;
}

std::vector<MountEntry> mounts_at(std::string_view mountinfo, std::string_view path) {
  std::vector<MountEntry> found;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    MountEntry entry = parse_line(line);
    if (entry.path == path) found.push_back(std::move(entry));
  }
  return found;
}

std::vector<MountEntry> mounts_at(const fs::path& path) {
  return mounts_at(mountinfo_of_this_process(), path.string());
}

std::vector<fs::path> places_of(std::string_view mountinfo, std::string_view device) {
  std::vector<fs::path> places;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const MountEntry entry = parse_line(line);
    std::erase(places, fs::path(entry.path));  // this one lies on it
    if (entry.device == device && entry.root == "/") places.emplace_back(entry.path);
  }
  return places;
}

std::vector<fs::path> places_of(const std::string& device) {
  return places_of(mountinfo_of_this_process(), device);
}

std::vector<fs::path> shown_at(const std::string& device) {
  std::vector<fs::path> places;
  std::istringstream lines(mountinfo_of_this_process());
  for (std::string line; std::getline(lines, line);) {
    const MountEntry entry = parse_line(line);
    if (!entry.is_overlay()) std::erase(places, fs::path(entry.path));  // this one lies on it
    if (entry.device == device && entry.root == "/") places.emplace_back(entry.path);
  }
  return places;
}

std::vector<SeenMount> seen_mounts(std::string_view mountinfo) {
  std::vector<SeenMount> seen;
  std::map<std::string, std::size_t> of_device;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const MountEntry entry = parse_line(line);
    if (!entry.is_headrace() || entry.is_overlay()) continue;
    const auto [known, is_new] = of_device.emplace(entry.device, seen.size());
    if (is_new) {
      seen.push_back({entry.path, {}, entry.source, user_in(entry.options)});
    } else if (entry.root == "/") {
      seen[known->second].also_at.emplace_back(entry.path);
    }
  }
  return seen;
}

std::vector<SeenMount> seen_mounts() {
  return seen_mounts(mountinfo_of_this_process());
}

bool SeenMount::is_at(const fs::path& place) const {
  return path == place || std::ranges::find(also_at, place) != also_at.end();
}

bool is_shown(const std::vector<std::string>& devices) {
  return std::ranges::any_of(devices, [](const std::string& device) { return !places_of(device).empty(); });
}

bool has_living_mount(const fs::path& path, std::chrono::milliseconds patience) {
  const std::vector<SeenMount> seen = seen_mounts();
  const bool is_own = std::any_of(seen.begin(), seen.end(), [&](const SeenMount& mount) {
    return mount.is_at(path) && (!mount.user || *mount.user == ::geteuid());
  });
  return is_own && pulse_of(path, patience) != Pulse::kDead;
}

Result<fs::path> resolve_mount_point(const fs::path& path) {
  const std::string context = "mount point " + path.string();
  std::error_code failure;
  const fs::path absolute = fs::absolute(path, failure);
  if (failure) return io::system_error(failure.value(), context);
  fs::path resolved = fs::canonical(absolute, failure);
  if (!failure) return resolved;
  if (failure.value() != ENOTCONN) return io::system_error(failure.value(), context);
  const fs::path trimmed = absolute.has_filename() ? absolute : absolute.parent_path();
  resolved = fs::canonical(trimmed.parent_path(), failure);
  if (failure) return io::system_error(failure.value(), context);
  return resolved / trimmed.filename();
}

namespace {

// Makes way for a mount where one of headrace is, if that is dead.
Status clear_dead_mount(const fs::path& path, pid_t served_by) {
  const Pulse pulse = pulse_of(path);
  if (!is_ours_at(path)) return {};  // it has just ended, and what lies below answered
  const auto process = pulse == Pulse::kSilent && served_by > 0 ? io::process_state(served_by) : std::nullopt;
  const bool waits_for_itself = process && process->is_ending;
  if (pulse == Pulse::kAnswers || (pulse == Pulse::kSilent && !waits_for_itself)) {
    const std::string what = pulse == Pulse::kSilent ? " has a headrace mount that does not answer; end it"
                                                     : " has a headrace mount; end it";
    return io::make_error(ErrorCode::kBusy,
                          "mount point " + path.string() + what + " with headrace unmount " + path.string());
  }
  io::log_warning("mount point {}: clearing a mount whose daemon is gone", path.string());
  if (waits_for_itself) abort_silent(path);
  return detach_ours(path);
}

}  // namespace

Status check_mount_point(const fs::path& path, const ChannelOptions& options) {
  if (is_ours_at(path)) HEADRACE_TRY_DO(clear_dead_mount(path, options.served_by));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return io::system_error(errno, "mount point " + path.string());
  if (!S_ISDIR(status.st_mode)) {
    return io::make_error(ErrorCode::kInvalidArgument, "mount point " + path.string(), ENOTDIR);
  }
  return options.over_source ? Status{} : check_empty(path);
}

Result<bool> show_also_at(const fs::path& shown, const fs::path& at, bool covers) {
  const std::vector<MountEntry> mounts = mounts_at(shown);
  if (mounts.empty() || !mounts.back().is_headrace() || mounts.back().root != "/") return false;
  HEADRACE_TRY(path, resolve_mount_point(at));
  HEADRACE_TRY_DO(check_mount_point(path, ChannelOptions{.mountpoint = path, .over_source = covers}));
  const std::string context = "show " + shown.string() + " at " + path.string() + ", too";
  if (::mount(shown.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) return io::system_error(errno, context);
  // If the mount was ended meanwhile, the folder below it lies there now.
  const std::vector<MountEntry> bound = mounts_at(path);
  const bool is_same = !bound.empty() && bound.back().device == mounts.back().device;
  if (is_same && ::mount(nullptr, path.c_str(), nullptr, MS_PRIVATE, nullptr) == 0) return true;
  const int failure = errno;
  ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  if (is_same) return io::system_error(failure, context);
  return false;
}

Status unmount(const fs::path& mountpoint) {
  HEADRACE_TRY(path, resolve_mount_point(mountpoint));
  if (is_ours_at(path) && pulse_of(path) == Pulse::kSilent) abort_silent(path);
  return detach_ours(path);
}

std::vector<std::string> devices_at(const fs::path& mountpoint) {
  std::vector<std::string> devices;
  const Result<fs::path> path = resolve_mount_point(mountpoint);
  if (!path) return devices;
  for (const MountEntry& entry : mounts_at(*path)) {
    if (entry.is_headrace()) devices.push_back(entry.device);
  }
  return devices;
}

namespace {

// The kernel has ended the connection: with the mount, or before it.
bool has_ended(int connection) {
  pollfd poll = {.fd = connection, .events = POLLIN, .revents = 0};
  return ::poll(&poll, 1, 0) > 0 && (poll.revents & POLLERR) != 0;
}

}  // namespace

// What lies there and answers is not the mount of a connection that has ended.
Status unmount_device(const fs::path& path, const std::string& device, int connection) {
  const auto detach_at = [&](const fs::path& place) {
    return detach_while(place, [&](const auto& mounts) {
      const bool is_there =
          std::any_of(mounts.begin(), mounts.end(), [&](const MountEntry& entry) { return entry.device == device; });
      return is_there && (!has_ended(connection) || pulse_of(place) == Pulse::kDead);
    });
  };
  Status detached = detach_at(path);
  for (const fs::path& place : places_of(device)) {
    Status also = detach_at(place);
    if (detached) detached = std::move(also);
  }
  return detached;
}

void abort_connection(const fs::path& path, const std::string& device) {
  std::ofstream control("/sys/fs/fuse/connections/" + device.substr(device.find(':') + 1) + "/abort");
  control << "1" << std::flush;
  if (control) return;
  // Not every machine shows that folder. Forcing aborts as well, and fails with EBUSY where the mount is in use; it
  // reaches only what lies on top.
  const std::vector<MountEntry> mounts = mounts_at(path);
  if (!mounts.empty() && mounts.back().is_overlay()) ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  ::umount2(path.c_str(), MNT_FORCE | UMOUNT_NOFOLLOW);
}

}  // namespace headrace::fuse
