// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/config_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "headrace/cli/options/toml.h"

namespace headrace::cli {
namespace {

std::string to_lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The name of an option in a file: "allow-other" for --allow-other, "source" for the argument SOURCE, or an empty text.
std::string name_in_file(const Option& option) {
  return option.is_argument() ? to_lower(std::string(option.name)) : std::string(option.long_name());
}

bool is_setting(const Option& option) {
  const std::string name = name_in_file(option);
  return !name.empty() && name != "help" && name != "config";
}

std::string known_names(const Command& command) {
  std::string names;
  for (const Option& option : command.options) {
    if (is_setting(option)) names += (names.empty() ? "" : ", ") + name_in_file(option);
  }
  return names;
}

Option* find_option(Command& command, const std::string& name) {
  for (Option& option : command.options) {
    if (is_setting(option) && name_in_file(option) == name) return &option;
  }
  return nullptr;
}

tl::unexpected<io::Error> wrong(const std::string& file, const std::string& text) {
  return io::make_error(io::ErrorCode::kInvalidArgument, fmt::format("{}: {}", file, text));
}

io::Status set_flag(Option& option, const std::string& file, const Setting& setting) {
  const bool is_one_word = !setting.is_list && setting.values.size() == 1;
  if (!is_one_word || (setting.values.front() != "true" && setting.values.front() != "false")) {
    return wrong(file, fmt::format("{}: write {} = true or false", setting.name, setting.name));
  }
  option.given = setting.values;
  *std::get<bool*>(option.target) = setting.values.front() == "true";
  return {};
}

io::Status apply_setting(Command& command, const std::string& file, const Setting& setting) {
  Option* option = find_option(command, setting.name);
  if (option == nullptr) {
    return wrong(file, fmt::format("no option '{}'; write one of {} = value", setting.name, known_names(command)));
  }
  if (!option->given.empty()) return {};  // the command line or the environment has set it
  if (setting.values.empty()) return {};  // an empty list
  if (option->is_flag()) return set_flag(*option, file, setting);
  const io::Status taken = option->take(setting.values);
  return taken ? taken : wrong(file, fmt::format("{}: {}", setting.name, taken.error().context));
}

// 1 MiB: a config file has some lines, and what is larger is something else, or has no end.
std::optional<std::string> text_of(const std::string& file) {
  constexpr std::size_t kBytesMax = 1 << 20;
  std::ifstream stream(file, std::ios::binary);
  std::string text(kBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || !stream.eof()) return std::nullopt;  // it was not opened, or has more
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

}  // namespace

io::Status apply_config_file(Command& command, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    return wrong(file, "this is a folder; give the path of a TOML file");
  }
  const std::optional<std::string> text = text_of(file);
  if (!text || text->find('\0') != std::string::npos) {
    return wrong(file, "this config file cannot be read; give the path of a TOML file");
  }
  const io::Result<std::vector<Setting>> settings = parse_toml(*text);
  if (!settings) return wrong(file, settings.error().context);
  for (const Setting& setting : *settings) HEADRACE_TRY_DO(apply_setting(command, file, setting));
  return {};
}

void add_environment_names(Command& command) {
  for (Option& option : command.options) {
    std::string name(option.long_name());
    if (name.empty() || name == "help" || name == "engine") continue;  // the engine itself reads HEADRACE_ENGINE
    std::replace(name.begin(), name.end(), '-', '_');
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    option.environment = "HEADRACE_" + name;
  }
}

}  // namespace headrace::cli
