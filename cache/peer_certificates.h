// SPDX-License-Identifier: Apache-2.0
// The certificates by which the nodes of a job know each other.
//
//   HEADRACE_TRY_DO(make_peer_certificates("/home/me/job-17"));      // once, where all nodes see it
//   options.shared.certificates = "/home/me/job-17";                 // on every node
//
// The authority's own key is thrown away when it has signed one certificate, which all nodes of the job have: nobody
// can make another one that they take.
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>

#include "headrace/io/result.h"

namespace headrace::cache {

struct PeerCertificates {
  std::filesystem::path authority;    // who signed
  std::filesystem::path certificate;  // of every node
  std::filesystem::path key;          // of the certificate; whoever reads it can join
};
[[nodiscard]] PeerCertificates certificates_in(const std::filesystem::path& folder);

// Makes the folder if it is not there (0700), and the three files in it, valid for a year from yesterday on: clocks
// differ. Errors: kSystem (a file is there already, or cannot be written).
[[nodiscard]] io::Status make_peer_certificates(const std::filesystem::path& folder);
// Errors: kInvalidArgument, naming the file that is missing or wrong.
[[nodiscard]] io::Status check_peer_certificates(const std::filesystem::path& folder);

}  // namespace headrace::cache
