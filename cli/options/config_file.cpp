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
#include "headrace/cli/options/usage_error.h"

namespace headrace::cli {
namespace {

std::string to_lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The name of an option in a file: "allow-other" for --allow-other, "source" for the argument SOURCE.
std::string name_in_file(const CLI::Option& option) {
  return option.get_positional() ? to_lower(option.get_name(true, false)) : option.get_lnames().front();
}

bool is_setting(const CLI::Option& option) {
  const bool named = option.get_positional() || !option.get_lnames().empty();
  return named && name_in_file(option) != "help" && name_in_file(option) != "config";
}

std::string known_names(const CLI::App& command) {
  std::string names;
  for (const CLI::Option* option : command.get_options()) {
    if (is_setting(*option)) names += (names.empty() ? "" : ", ") + name_in_file(*option);
  }
  return names;
}

CLI::Option* find_option(CLI::App& command, const std::string& name) {
  for (CLI::Option* option : command.get_options()) {
    if (is_setting(*option) && name_in_file(*option) == name) return option;
  }
  return nullptr;
}

void apply_setting(CLI::App& command, const std::string& file, const Setting& setting) {
  CLI::Option* option = find_option(command, setting.name);
  if (option == nullptr) {
    throw CLI::ValidationError(
        file, fmt::format("no option '{}'; write one of {} = value", setting.name, known_names(command)));
  }
  if (option->count() > 0) return;     // the command line or the environment has set it
  if (setting.values.empty()) return;  // an empty list
  try {
    if (option->get_expected_min() == 0) {
      const bool is_one_word = !setting.is_list && setting.values.size() == 1;
      if (!is_one_word || (setting.values.front() != "true" && setting.values.front() != "false")) {
        throw CLI::ValidationError(file, fmt::format("{}: write {} = true or false", setting.name, setting.name));
      }
      option->add_result(option->get_flag_value(setting.name, setting.values.front()));
    } else {
      option->add_result(setting.values);
    }
    option->run_callback();
  } catch (const CLI::ParseError& failure) {
    throw CLI::ValidationError(file, fmt::format("{}: {}", setting.name, in_plain_words(failure)));
  }
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

void apply_config_file(CLI::App& command, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw CLI::ValidationError(file, "this is a folder; give the path of a TOML file");
  }
  const std::optional<std::string> text = text_of(file);
  if (!text || text->find('\0') != std::string::npos) {
    throw CLI::ValidationError(file, "this config file cannot be read; give the path of a TOML file");
  }
  const io::Result<std::vector<Setting>> settings = parse_toml(*text);
  if (!settings) throw CLI::ValidationError(file, settings.error().context);
  for (const Setting& setting : *settings) apply_setting(command, file, setting);
}

void add_environment_names(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_lnames().empty()) continue;
    std::string name = option->get_lnames().front();
    if (name == "help" || name == "engine") continue;  // the engine itself reads HEADRACE_ENGINE
    std::replace(name.begin(), name.end(), '-', '_');
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    option->envname("HEADRACE_" + name);
  }
}

}  // namespace headrace::cli
