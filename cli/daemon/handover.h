// SPDX-License-Identifier: Apache-2.0
// What the supervisor of a mount hands to the program that goes on in its process (headrace upgrade).
//
//   try_program("/usr/bin/headrace", handover);         // could it?
//   replace_program("/usr/bin/headrace", handover);     // there: headrace take-over DESCRIPTOR WORDS...
//   HEADRACE_TRY(handover, read_handover(descriptor));  // in the program that begins
//
// The words of the command line are those of headrace mount, each option as it was in force. Thread-safety: none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include "headrace/fuse/channel.h"
#include "headrace/io/result.h"

namespace headrace::cli {

struct Handover {
  fuse::ChannelParts channel;
  pid_t stand_in = -1;
  pid_t memcached_keeper = -1;
  int kept_fd = -1;    // KeptSettings
  int source_fd = -1;  // of a folder: a mount may cover its path
  std::filesystem::path source;
  std::filesystem::path mount_point;
  std::filesystem::path working_folder;  // where relative paths begin
  bool over_source = false;
  bool is_trial = false;  // the program is to say whether it can go on, and to leave all as it is
  std::vector<std::string> words;
};

[[nodiscard]] nlohmann::json to_json(const Handover& handover);
// Errors: kUnsupported (of a program that hands over otherwise), kInvalidArgument (no handover).
[[nodiscard]] io::Result<Handover> parse_handover(const nlohmann::json& text);
[[nodiscard]] io::Result<Handover> read_handover(int fd);

// Runs `program` beside this one, and asks whether it could go on. What it says lands where this process logs.
// Errors: kSystem (it cannot be run), kUnsupported (it fails here, whatever it does elsewhere).
[[nodiscard]] io::Status try_program(const std::filesystem::path& program, const Handover& handover);

// Becomes `program`; the descriptors stay open. Returns only if that fails, with what they were. Errors: kSystem.
[[nodiscard]] io::Status replace_program(const std::filesystem::path& program, const Handover& handover);

}  // namespace headrace::cli
