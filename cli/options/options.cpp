// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headrace/cache/record_map.h"
#include "headrace/io/log.h"

namespace headrace::cli {

void add_verbose_flag(CLI::App& command) {
  const std::string name = command.get_name();
  if (name == "mount" || name == "take-over") return;
  command.add_flag_callback(
      "-v,--verbose", [] { io::set_log_level(io::LogLevel::kInfo); }, "Say on stderr what is done on the way");
}

void add_listing_options(CLI::App& command, CacheArguments& cache) {
  constexpr const char* kGroup = "Which files are samples";
  command.add_option("--listing", cache.listing, "How samples are listed and numbered")
      ->type_name("imagefolder|timm|dali|keras|sorted")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--samples", cache.sample_list, "The samples are the files this one names, one path per line")
      ->type_name("FILE")
      ->group(kGroup);
  command.add_flag("--accept-unreadable", cache.accept_unreadable, "Leave out folders and files that cannot be read")
      ->group(kGroup);
}

void add_bucket_options(CLI::App& command, CacheArguments& cache) {
  constexpr const char* kGroup = "Buckets (SOURCE is s3://BUCKET/PREFIX)";
  command.add_option("--endpoint", cache.endpoint, "Where the store is, if it is not Amazon's own")
      ->type_name("URL")
      ->group(kGroup);
  command.add_option("--region", cache.region, "The region of the bucket")->type_name("NAME")->group(kGroup);
  command.add_option("--aws-profile", cache.profile, "The profile in ~/.aws that has the keys")
      ->type_name("NAME")
      ->group(kGroup);
  command.add_flag("--no-sign-request", cache.no_sign_request, "The bucket is public: send no signature")
      ->group(kGroup);
  command
      .add_flag("--requester-pays", cache.requester_pays,
                "Agree to pay for the requests; also AWS_REQUEST_PAYER=requester")
      ->group(kGroup);
}

void add_tier_options(CLI::App& command, CacheArguments& cache) {
  command
      .add_option(
          "--ssd", cache.ssd,
          "A tier on an SSD; more than one may be given, fastest first. PATH:200G,free=10% leaves a tenth of its file "
          "system free")
      ->type_name("PATH:SIZE")
      ->allow_extra_args(false)
      ->group(kTierGroup);
  command.add_option("--hdd", cache.hdd, "A tier on a hard disk or a network share")
      ->type_name("PATH:SIZE")
      ->allow_extra_args(false)
      ->group(kTierGroup);
  command
      .add_option("--peers", cache.peers,
                  "The memcached of each node of this job: what one node has read, the others get from there. The "
                  "same list on every node: names, file:PATH, dns:NAME or slurm")
      ->type_name("HOST[:PORT],...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(kTierGroup);
  command
      .add_option("--share", cache.share,
                  "Memory that each peer's memcached has. A mount starts the one of its own node, unless somebody "
                  "listens there already")
      ->type_name("SIZE")
      ->group(kTierGroup);
  command
      .add_option("--peer-tls", cache.peer_tls,
                  "Peers talk TLS with the certificates in this folder, which headrace peers init makes; needed where "
                  "an address is public")
      ->type_name("DIR")
      ->group(kTierGroup);
}

void add_ram_size(CLI::App& command, CacheArguments& cache) {
  command
      .add_option("--ram", cache.ram,
                  "Memory for samples in all, or a part of the machine's such as 40%; default 25%, beside other mounts "
                  "half of what they leave of one half. A mount needs 20M, or "
                  "0: it pushes nothing then, and what is on its way takes 32M at most")
      ->type_name("SIZE")
      ->group(kTierGroup);
}

void add_mount_point(CLI::App& command, std::filesystem::path& mount_point) {
  command.add_option("MOUNTPOINT", mount_point, "Where it is mounted")->required();
}

void add_engine_option(CLI::App& command, CacheArguments& cache) {
  command.add_option("--engine", cache.engine, "How files are read")
      ->type_name("auto|uring|pread")
      ->capture_default_str()
      ->group(kSpecialGroup);
}

CLI::Option& add_order_option(CLI::App& command, std::string& order, const char* description) {
  return *command.add_option("--order", order, description)->type_name("SPEC")->group(kOrderGroup);
}

CLI::Option& add_records_option(CLI::App& command, std::string& records) {
  return *command
              .add_option("--records", records,
                          fmt::format("The samples are the records of the packed files in SOURCE, one sequence in the "
                                      "order of their paths. FORMAT: auto, {}, hdf5:NAME (of a data set) or "
                                      "stride=BYTES,offset=BYTES",
                                      fmt::join(cache::record_formats(), ", ")))
              ->type_name("FORMAT")
              ->group(kOrderGroup);
}

}  // namespace headrace::cli
