// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace headrace::cli {
namespace {

using nlohmann::json;

// Null when there is no such member.
const json* find(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::uint64_t number_of(const json& object, const char* name) {
  const json* member = find(object, name);
  const bool natural =
      member != nullptr && member->is_number_integer() && (member->is_number_unsigned() || *member >= 0);
  return natural ? member->get<std::uint64_t>() : 0;
}

double real_of(const json& object, const char* name) {
  const json* member = find(object, name);
  return member != nullptr && member->is_number() ? member->get<double>() : 0;
}

std::string text_of(const json& object, const char* name) {
  const json* member = find(object, name);
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}

bool flag_of(const json& object, const char* name) {
  const json* member = find(object, name);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

const json& member_of(const json& object, const char* name) {
  static const json none = json::object();
  const json* member = find(object, name);
  return member != nullptr ? *member : none;
}

void print_json(const json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, json::error_handler_t::replace));
}

}  // namespace headrace::cli
