// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/neighbours.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/memory_limit.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A daemon answers within a millisecond, or in its turn on a busy machine. Two daemons that ask each other while each
// answers the other wait so long.
constexpr std::chrono::milliseconds kPatience{2'000};

std::optional<Neighbour> parse(const json& told) {
  const json& words = member_of(told, "words");
  if (!words.is_array()) return std::nullopt;
  Neighbour neighbour{.place = {},
                      .mount_point = text_of(told, "mount_point"),
                      .source_name = {},
                      .words = {},
                      .working_folder = text_of(told, "working_folder"),
                      .source_device = number_of(told, "source_device"),
                      .source_inode = number_of(told, "source_inode"),
                      .budget_bytes = number_of(told, "budget_bytes"),
                      .held_bytes = number_of(told, "held_bytes")};
  for (const json& word : words) {
    if (word.is_string()) neighbour.words.push_back(word.get<std::string>());
  }
  return neighbour;
}

// nullopt: nobody else listens for this place, or not as this version does.
std::optional<Neighbour> ask(const fs::path& place) {
  const io::Result<fs::path> socket = control_socket_of(place);
  if (!socket) return std::nullopt;
  io::Result<ControlClient> client = ControlClient::connect(*socket);
  if (!client || client->peer() == ::getpid()) return std::nullopt;
  const io::Result<std::string> line = client->ask(format_request("neighbour", json::object()), kPatience);
  if (!line) return std::nullopt;
  const io::Result<json> told = parse_reply(*line);
  if (!told) return std::nullopt;
  std::optional<Neighbour> neighbour = parse(*told);
  if (neighbour) neighbour->worker = client->peer();
  return neighbour;
}

std::uint64_t sum(const std::vector<Neighbour>& all, std::uint64_t Neighbour::*bytes) {
  const bool has_own_limit = io::control_group_memory_limit().has_value();
  const std::string own = control_group_of("self");
  std::uint64_t total = 0;
  for (const Neighbour& each : all) {
    if (has_own_limit && control_group_of(std::to_string(each.worker)) != own) continue;
    total += each.*bytes;
  }
  return total;
}

}  // namespace

json to_json(const Neighbour& neighbour) {
  return {{"mount_point", neighbour.mount_point.string()},
          {"words", neighbour.words},
          {"working_folder", neighbour.working_folder.string()},
          {"source_device", neighbour.source_device},
          {"source_inode", neighbour.source_inode},
          {"budget_bytes", neighbour.budget_bytes},
          {"held_bytes", neighbour.held_bytes}};
}

std::vector<Neighbour> neighbours() {
  std::vector<Neighbour> all;
  for (const fuse::SeenMount& mount : fuse::seen_mounts()) {
    if (mount.user && *mount.user != ::geteuid()) continue;
    // After an unmount of the first place the daemon is found by one of the others.
    std::optional<Neighbour> neighbour = ask(mount.path);
    if (!neighbour) continue;
    neighbour->place = mount.path;
    neighbour->source_name = mount.source_name;
    all.push_back(std::move(*neighbour));
  }
  return all;
}

std::string control_group_of(const std::string& process) {
  std::ifstream stream("/proc/" + process + "/cgroup");
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::uint64_t budget_of(const std::vector<Neighbour>& all) {
  return sum(all, &Neighbour::budget_bytes);
}

std::uint64_t held_by(const std::vector<Neighbour>& all) {
  return sum(all, &Neighbour::held_bytes);
}

}  // namespace headrace::cli
