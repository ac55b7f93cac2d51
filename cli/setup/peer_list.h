// SPDX-License-Identifier: Apache-2.0
// Which nodes share, from the words of --peers: HOST[:PORT] each, or one of
//
//   file:PATH          a host per line; what follows a # is a comment
//   dns:NAME[:PORT]    all addresses of a name, such as a headless service of Kubernetes
//   slurm              the nodes of this job, SLURM_JOB_NODELIST
//
// Every node has to get the same list. Thread-safety: any thread, as long as nobody changes the environment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cli {

// More nodes than share at most; a list that is longer is a mistake, and cost no more memory than this.
inline constexpr std::size_t kListedPeersMax = 1024;

// Blocks for dns:. Errors: kInvalidArgument; kNotFound for a file or a name that is not there. Each is a sentence.
[[nodiscard]] io::Result<std::vector<std::string>> list_peers(const std::vector<std::string>& words);

// Whether a file or a name server is asked for the list, which may not answer.
[[nodiscard]] bool is_looked_up(const std::vector<std::string>& words);

// The same words wherever the process is by then: a file is named from the root.
[[nodiscard]] std::vector<std::string> absolute_peers(const std::vector<std::string>& words);
// The file that they name; empty: none.
[[nodiscard]] std::filesystem::path peer_file_of(const std::vector<std::string>& words);

// Slurm's way to write hosts: "n[01-03,7],login" is n01, n02, n03, n7 and login. Errors: kInvalidArgument.
[[nodiscard]] io::Result<std::vector<std::string>> expand_host_list(std::string_view list);

}  // namespace headrace::cli
