// SPDX-License-Identifier: Apache-2.0
// The object store of the tests (object_server.py) as a child process.
//
//   ObjectServer server;
//   server.put("a/b", "content");
//   server.set(R"({"busy": 0.01})");
//   auto client = ObjectClient::open(server.options());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "headrace/cache/object_store.h"
#include "headrace/io/unique_fd.h"

namespace headrace::test {

class ObjectServer {
 public:
  ObjectServer();  // skips the test case where there is no /usr/bin/python3
  ~ObjectServer();
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // With the server's own key, and short pauses.
  [[nodiscard]] cache::ObjectStoreOptions options() const;
  void put(const std::string& key, std::string_view content) const;
  void put_all(const std::vector<std::string>& keys) const;  // each has its own key for content
  void remove(const std::string& key) const;
  void set(const std::string& json) const;  // see Faults in object_server.py
  // How often something was asked for: "GET", "LIST", "status 503", "key a/b".
  [[nodiscard]] std::uint64_t count(const std::string& what) const;

 private:
  std::string ask(const std::string& target, std::string_view body) const;

  pid_t pid_ = -1;
  io::UniqueFd input_;  // it ends when this does
  int port_ = 0;
};

// An environment of its own: what is not in it is not set.
[[nodiscard]] std::function<const char*(const char*)> environment_of(std::map<std::string, std::string> variables);

}  // namespace headrace::test
