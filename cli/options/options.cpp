// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headrace/cache/record_map.h"
#include "headrace/io/log.h"

namespace headrace::cli {

void add_verbose_flag(Command& command) {
  if (command.name == "mount" || command.name == "take-over") return;
  command.add({.name = "--verbose",
               .letter = 'v',
               .target = +[] { io::set_log_level(io::LogLevel::kInfo); },
               .help = "Say on stderr what is done on the way"});
}

Command& add_command(Command& above, const CommandText& text) {
  return above.commands.emplace_back(text.group, text.name, text.description);
}

Option json_flag(bool& json) {
  return {.name = "--json", .target = &json, .help = "Print one JSON object"};
}

void add_listing_options(Command& command, CacheArguments& cache) {
  constexpr const char* kGroup = "Which files are samples";
  command.add({.name = "--listing",
               .target = &cache.listing,
               .value = "imagefolder|timm|dali|keras|sorted",
               .group = kGroup,
               .help = "How samples are listed and numbered",
               .shows_default = true});
  command.add({.name = "--samples",
               .target = &cache.sample_list,
               .value = "FILE",
               .group = kGroup,
               .help = "The samples are the files this one names, one path per line"});
  command.add({.name = "--accept-unreadable",
               .target = &cache.accept_unreadable,
               .group = kGroup,
               .help = "Leave out folders and files that cannot be read"});
}

void add_bucket_options(Command& command, CacheArguments& cache) {
  constexpr const char* kGroup = "Buckets (SOURCE is s3://BUCKET/PREFIX)";
  command.add({.name = "--endpoint",
               .target = &cache.endpoint,
               .value = "URL",
               .group = kGroup,
               .help = "Where the store is, if it is not Amazon's own"});
  command.add({.name = "--region",
               .target = &cache.region,
               .value = "NAME",
               .group = kGroup,
               .help = "The region of the bucket"});
  command.add({.name = "--aws-profile",
               .target = &cache.profile,
               .value = "NAME",
               .group = kGroup,
               .help = "The profile in ~/.aws that has the keys"});
  command.add({.name = "--no-sign-request",
               .target = &cache.no_sign_request,
               .group = kGroup,
               .help = "The bucket is public: send no signature"});
  command.add({.name = "--requester-pays",
               .target = &cache.requester_pays,
               .group = kGroup,
               .help = "Agree to pay for the requests; also AWS_REQUEST_PAYER=requester"});
}

void add_tier_options(Command& command, CacheArguments& cache) {
  command.add(
      {.name = "--ssd",
       .target = &cache.ssd,
       .value = "PATH:SIZE",
       .group = kTierGroup,
       .help =
           "A tier on an SSD; more than one may be given, fastest first. PATH:200G,free=10% leaves a tenth of its file "
           "system free"});
  command.add({.name = "--hdd",
               .target = &cache.hdd,
               .value = "PATH:SIZE",
               .group = kTierGroup,
               .help = "A tier on a hard disk or a network share"});
  command.add({.name = "--peers",
               .target = &cache.peers,
               .value = "HOST[:PORT],...",
               .group = kTierGroup,
               .help = "The memcached of each node of this job: what one node has read, the others get from there. The "
                       "same list on every node: names, file:PATH, dns:NAME or slurm",
               .parts_at_commas = true});
  command.add({.name = "--share",
               .target = &cache.share,
               .value = "SIZE",
               .group = kTierGroup,
               .help = "Memory that each peer's memcached has. A mount starts the one of its own node, unless somebody "
                       "listens there already"});
  command.add({.name = "--peer-tls",
               .target = &cache.peer_tls,
               .value = "DIR",
               .group = kTierGroup,
               .help =
                   "Peers talk TLS with the certificates in this folder, which headrace peers init makes; needed where "
                   "an address is public"});
}

void add_ram_size(Command& command, CacheArguments& cache) {
  command.add(
      {.name = "--ram",
       .target = &cache.ram,
       .value = "SIZE",
       .group = kTierGroup,
       .help = "Memory for samples in all, or a part of the machine's such as 40%; default 25%, beside other mounts "
               "half of what they leave of one half. A mount needs 20M, or "
               "0: it pushes nothing then, and what is on its way takes 32M at most"});
}

void add_mount_point(Command& command, std::filesystem::path& mount_point) {
  command.add({.name = "MOUNTPOINT", .target = &mount_point, .help = "Where it is mounted", .required = true});
}

void add_engine_option(Command& command, CacheArguments& cache) {
  command.add({.name = "--engine",
               .target = &cache.engine,
               .value = "auto|uring|pread",
               .group = kSpecialGroup,
               .help = "How files are read",
               .shows_default = true});
}

void add_records_option(Command& command, std::string& records) {
  command.add({.name = "--records",
               .target = &records,
               .value = "FORMAT",
               .group = kOrderGroup,
               .help = fmt::format("The samples are the records of the packed files in SOURCE, one sequence in the "
                                   "order of their paths. FORMAT: auto, {}, hdf5:NAME (of a data set) or "
                                   "stride=BYTES,offset=BYTES",
                                   fmt::join(cache::record_formats(), ", "))});
}

}  // namespace headrace::cli
