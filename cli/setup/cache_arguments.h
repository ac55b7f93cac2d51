// SPDX-License-Identifier: Apache-2.0
// How a data set is listed and cached: the options that several commands share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headrace::cli {

struct CacheArguments {
  std::string ram;               // a size or a percentage of the machine's memory; empty: what the command takes
  std::vector<std::string> ssd;  // each PATH:SIZE[,free=SIZE]; the fastest tier first
  std::vector<std::string> hdd;
  std::vector<std::string> peers;  // each HOST or HOST:PORT
  std::string share;               // a size: what each peer's memcached has
  std::filesystem::path peer_tls;  // the job's certificates; empty: peers talk in the clear
  std::string endpoint;            // of a bucket: a URL; empty: from the environment, else Amazon's own
  std::string region;              // empty: from the environment, or as the store says
  std::string profile;             // in ~/.aws; empty: from the environment
  bool no_sign_request = false;    // the bucket is public
  bool requester_pays = false;
  std::string listing = "imagefolder";
  std::filesystem::path sample_list;  // a file of relative paths; empty: the listing rule chooses the samples
  bool accept_unreadable = false;     // what cannot be read is left out, instead of failing the scan
  std::string engine = "auto";        // auto, uring or pread
};

}  // namespace headrace::cli
