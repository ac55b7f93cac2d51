// SPDX-License-Identifier: Apache-2.0
#include "object_server.h"

#include <array>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cache/source/object/http_fetch.h"
#include "headrace/cache/source/object/uri.h"

#include "support/temp_dir.h"

namespace headrace::test {
namespace {

std::pair<io::UniqueFd, io::UniqueFd> make_pipe() {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  return {io::UniqueFd(ends[0]), io::UniqueFd(ends[1])};
}

}  // namespace

ObjectServer::ObjectServer() {
  if (::access("/usr/bin/python3", X_OK) != 0) skip("no /usr/bin/python3");
  auto [its_input, input] = make_pipe();
  auto [output, its_output] = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, its_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, its_output.get(), STDOUT_FILENO);
  std::string program = "/usr/bin/python3";
  std::string script = HEADRACE_OBJECT_SERVER;
  std::array<char*, 3> arguments = {program.data(), script.data(), nullptr};
  const int failed = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start the object server");
  its_output.reset();
  std::string line;
  for (char c = 0; ::read(output.get(), &c, 1) == 1 && c != '\n';) line += c;
  if (!line.starts_with("port ")) throw std::runtime_error("the object server did not start");
  port_ = std::stoi(line.substr(5));
  input_ = std::move(input);
}

ObjectServer::~ObjectServer() {
  input_.reset();
  int status = 0;
  if (pid_ > 0) ::waitpid(pid_, &status, 0);
}

cache::ObjectStoreOptions ObjectServer::options() const {
  cache::ObjectStoreOptions options;
  options.bucket = "bucket";
  options.endpoint = url();
  options.keys =
      cache::AccessKeys{.id = "AKIDEXAMPLE", .secret = io::Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")};
  options.environment = environment_of({});
  options.tuning.backoff_first = std::chrono::milliseconds(1);
  options.tuning.backoff_max = std::chrono::milliseconds(20);
  options.tuning.stall_timeout = std::chrono::milliseconds(400);
  return options;
}

std::string ObjectServer::ask(const std::string& target, std::string_view body) const {
  auto answer = cache::http_fetch({.method = cache::HttpExchange::Method::kPost,
                                   .url = url() + target,
                                   .headers = {"Expect:"},
                                   .body = std::string(body)},
                                  {.wait = std::chrono::seconds(60), .no_proxy = true});
  if (!answer || answer->status != 200) throw std::runtime_error("the object server does not do " + target);
  return answer->body;
}

void ObjectServer::put(const std::string& key, std::string_view content) const {
  ask("/_put?key=" + cache::encode_value(key), content);
}

void ObjectServer::put_all(const std::vector<std::string>& keys) const {
  ask("/_fill", nlohmann::json(keys).dump());
}

void ObjectServer::remove(const std::string& key) const {
  ask("/_delete?key=" + cache::encode_value(key), "");
}

void ObjectServer::set(const std::string& json) const {
  ask("/_set", json);
}

std::uint64_t ObjectServer::count(const std::string& what) const {
  return nlohmann::json::parse(ask("/_counts", "")).value(what, std::uint64_t{0});
}

std::function<const char*(const char*)> environment_of(std::map<std::string, std::string> variables) {
  auto kept = std::make_shared<const std::map<std::string, std::string>>(std::move(variables));
  return [kept](const char* name) -> const char* {
    const auto found = kept->find(name);
    return found == kept->end() ? nullptr : found->second.c_str();
  };
}

}  // namespace headrace::test
