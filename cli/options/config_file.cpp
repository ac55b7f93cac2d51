// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/config_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>

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

void apply_item(CLI::App& command, const std::string& file, const CLI::ConfigItem& item, const CLI::Config& format) {
  CLI::Option* option = item.parents.empty() ? find_option(command, item.name) : nullptr;
  if (option == nullptr) {
    throw CLI::ValidationError(
        file, fmt::format("no option '{}'; write one of {} = value", item.fullname(), known_names(command)));
  }
  if (option->count() > 0) return;  // the command line or the environment has set it
  try {
    if (option->get_expected_min() == 0) {
      option->add_result(option->get_flag_value(item.name, format.to_flag(item)));
    } else {
      option->add_result(item.inputs);
    }
    option->run_callback();
  } catch (const CLI::ParseError& failure) {
    throw CLI::ValidationError(file, fmt::format("{}: {}", item.name, in_plain_words(failure)));
  }
}

}  // namespace

void apply_config_file(CLI::App& command, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw CLI::ValidationError(file, "this is a folder; give the path of a TOML file");
  }
  CLI::ConfigTOML format;
  std::vector<CLI::ConfigItem> items;
  try {
    items = format.from_file(file);
  } catch (const CLI::ParseError&) {
    throw CLI::ValidationError(file, "this config file cannot be read; give the path of a TOML file");
  }
  for (const CLI::ConfigItem& item : items) {
    const bool section_mark = item.name == "++" || item.name == "--";
    if (!section_mark) apply_item(command, file, item, format);
  }
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
