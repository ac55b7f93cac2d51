// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/handover.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cli/setup/argument_list.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

// Words of a command line are at most 128 KiB each, and a mount has some dozens of them.
constexpr std::size_t kBytesMax = std::size_t{4} << 20;
// A program says within some 20 ms whether it can go on. Who asks the daemon waits longer than this.
constexpr int kTrialMsMax = 8000;

std::array<int, 10> descriptors(const Handover& handover) {
  const fuse::ChannelParts& channel = handover.channel;
  return {channel.fd,
          channel.shared_fd,
          channel.catalog_fds[0],
          channel.catalog_fds[1],
          channel.takeover_fds[0],
          channel.takeover_fds[1],
          channel.catalog_memory_fds[0],
          channel.catalog_memory_fds[1],
          handover.kept_fd,
          handover.source_fd};
}

void close_on_exec(const Handover& handover, int flag) {
  for (const int fd : descriptors(handover)) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, flag);
  }
}

// Without MFD_CLOEXEC: the other program reads it. As CBOR, since paths need not be UTF-8, and text in JSON is.
io::Result<io::UniqueFd> write_down(const Handover& handover) {
  const std::vector<std::uint8_t> text = json::to_cbor(to_json(handover));
  io::UniqueFd fd(::memfd_create("headrace-handover", 0));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return io::system_error(errno, "memory for the handover");
  }
  return fd;
}

// How a program is started that reads the handover from a descriptor.
ArgumentList command_line(int descriptor, const Handover& handover) {
  std::vector<std::string> words = {"headrace", "take-over", std::to_string(descriptor), handover.source.string(),
                                    handover.mount_point.string()};
  words.insert(words.end(), handover.words.begin(), handover.words.end());
  return ArgumentList(std::move(words));
}

// False: it failed, or had to be ended.
bool ends_well(pid_t child) {
  const io::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ended = {process.get(), POLLIN, 0};
  if (process.valid() && ::poll(&ended, 1, kTrialMsMax) <= 0) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

json to_json(const Handover& handover) {
  const fuse::ChannelParts& channel = handover.channel;
  return {{"version", fuse::kHandoverVersion},
          {"channel",
           {{"fd", channel.fd},
            {"shared_fd", channel.shared_fd},
            {"catalog_fds", channel.catalog_fds},
            {"takeover_fds", channel.takeover_fds},
            {"catalog_memory_fds", channel.catalog_memory_fds},
            {"path", channel.path.string()},
            {"device", channel.device},
            {"serves_others", channel.serves_others}}},
          {"stand_in", handover.stand_in},
          {"memcached_keeper", handover.memcached_keeper},
          {"kept_fd", handover.kept_fd},
          {"source_fd", handover.source_fd},
          {"source", handover.source.string()},
          {"mount_point", handover.mount_point.string()},
          {"working_folder", handover.working_folder.string()},
          {"over_source", handover.over_source},
          {"is_trial", handover.is_trial},
          {"words", handover.words}};
}

io::Result<Handover> parse_handover(const json& text) try {
  if (const auto version = text.at("version").get<unsigned>(); version != fuse::kHandoverVersion) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the mount hands over as version {}, this program takes {}; unmount, and mount anew",
                                  version, fuse::kHandoverVersion));
  }
  const json& channel = text.at("channel");
  return Handover{.channel = {.fd = channel.at("fd").get<int>(),
                              .shared_fd = channel.at("shared_fd").get<int>(),
                              .catalog_fds = channel.at("catalog_fds").get<std::array<int, 2>>(),
                              .takeover_fds = channel.at("takeover_fds").get<std::array<int, 2>>(),
                              .catalog_memory_fds = channel.value("catalog_memory_fds", std::array<int, 2>{-1, -1}),
                              .path = channel.at("path").get<std::string>(),
                              .device = channel.at("device").get<std::string>(),
                              .serves_others = channel.at("serves_others").get<bool>()},
                  .stand_in = text.at("stand_in").get<pid_t>(),
                  .memcached_keeper = text.at("memcached_keeper").get<pid_t>(),
                  .kept_fd = text.at("kept_fd").get<int>(),
                  .source_fd = text.at("source_fd").get<int>(),
                  .source = text.at("source").get<std::string>(),
                  .mount_point = text.at("mount_point").get<std::string>(),
                  .working_folder = text.at("working_folder").get<std::string>(),
                  .over_source = text.at("over_source").get<bool>(),
                  .is_trial = text.at("is_trial").get<bool>(),
                  .words = text.at("words").get<std::vector<std::string>>()};
} catch (const json::exception&) {
  return make_error(ErrorCode::kInvalidArgument, "this is no handover of a mount; use headrace upgrade MOUNTPOINT");
}

io::Result<Handover> read_handover(int fd) {
  std::string text(kBytesMax, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return parse_handover(json::from_cbor(text, true, false));
}

io::Status try_program(const std::filesystem::path& program, const Handover& handover) {
  Handover trial = handover;
  trial.is_trial = true;
  HEADRACE_TRY(text, write_down(trial));
  const ArgumentList line = command_line(text.get(), trial);
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, program.c_str(), nullptr, nullptr, line.pointers(), environ);
  if (failure != 0) return io::system_error(failure, "run " + program.string());
  if (ends_well(child)) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("where this mount runs, {} cannot go on with it; the log of the mount may say why",
                                program.string()));
}

io::Status replace_program(const std::filesystem::path& program, const Handover& handover) {
  HEADRACE_TRY(text, write_down(handover));
  const ArgumentList line = command_line(text.get(), handover);
  close_on_exec(handover, 0);
  ::execv(program.c_str(), line.pointers());
  const int failure = errno;
  close_on_exec(handover, FD_CLOEXEC);
  return io::system_error(failure, "run " + program.string());
}

}  // namespace headrace::cli
