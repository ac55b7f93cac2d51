// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/data_set.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>

#include "headrace/cache/object_store.h"
#include "headrace/cache/peer_certificates.h"
#include "headrace/cache/record_order.h"
#include "headrace/cli/setup/choices.h"
#include "headrace/cli/setup/peer_list.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/prune.h"
#include "headrace/cli/setup/sets.h"
#include "headrace/cli/setup/size.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/progress.h"
#include "headrace/io/memory_limit.h"
#include "headrace/io/own_folders.h"
#include "headrace/io/printable.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;

tl::unexpected<io::Error> option_error(std::string_view option, const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} {}", option, sentence));
}

// The size of the file system that `path` lies on or will lie on; 0: unknown.
std::uint64_t file_system_bytes(fs::path path) {
  struct statvfs status {};
  while (::statvfs(path.c_str(), &status) != 0) {
    if (!path.has_relative_path()) return 0;
    path = path.parent_path();
  }
  return std::uint64_t{status.f_blocks} * status.f_frsize;
}

// "free=10%" or "free=50G", behind a tier's size: what is to stay free of a file system of `room` bytes.
io::Result<std::uint64_t> parse_keep_free(std::string_view option, const std::string& text, std::string_view words,
                                          std::uint64_t room) {
  constexpr std::string_view kName = "free=";
  if (words.empty()) return 0;
  if (!words.starts_with(kName)) {
    return option_error(option,
                        fmt::format("{}: '{}': only free= may follow the size, for instance free=10%", text, words));
  }
  io::Result<std::uint64_t> bytes = parse_size(words.substr(kName.size()), room);
  if (!bytes) return option_error(option, fmt::format("{}: {}", text, bytes.error().context));
  if (*bytes == 0) return option_error(option, fmt::format("{}: free=0 keeps nothing free; leave it out", text));
  if (room == 0 || *bytes < room) return bytes;
  return option_error(option, fmt::format("{}: the whole file system there has {}, and nothing would be left for the "
                                          "tier; keep less free",
                                          text, format_size(room)));
}

// PATH:SIZE or PATH:SIZE,free=SIZE
io::Result<cache::TierOptions> parse_tier(std::string_view option, cache::TierKind kind, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return option_error(option, fmt::format("'{}': write PATH:SIZE, for instance /nvme/headrace:200G", text));
  }
  const std::string_view words = std::string_view(text).substr(colon + 1);
  const std::size_t comma = std::min(words.find(','), words.size());
  io::Result<std::uint64_t> bytes = parse_size(words.substr(0, comma));
  if (!bytes) return option_error(option, fmt::format("{}: {}", text, bytes.error().context));
  if (*bytes == 0) return option_error(option, fmt::format("{}: a tier of size 0 holds nothing; leave it out", text));
  HEADRACE_TRY_DO(io::check_links(text.substr(0, colon), "tier " + text.substr(0, colon)));
  const fs::path path = canonical_path(text.substr(0, colon));
  const std::uint64_t room = file_system_bytes(path);
  if (room > 0 && *bytes > room) {
    return option_error(option,
                        fmt::format("{}: the whole file system there has {}; take less", text, format_size(room)));
  }
  if (comma + 1 == words.size()) {
    return option_error(option, fmt::format("{}: nothing follows the comma; free=10% could, for instance", text));
  }
  HEADRACE_TRY(keep_free, parse_keep_free(option, text, words.substr(std::min(comma + 1, words.size())), room));
  return cache::TierOptions{.kind = kind, .path = path, .budget_bytes = *bytes, .keep_free_bytes = keep_free};
}

io::Status add_tiers(std::string_view option, cache::TierKind kind, const std::vector<std::string>& texts,
                     const fs::path& source, std::vector<cache::TierOptions>& tiers) {
  for (const std::string& text : texts) {
    HEADRACE_TRY(tier, parse_tier(option, kind, text));
    if (is_inside(tier.path, source)) {
      return option_error(option,
                          fmt::format("{} lies inside the source, which headrace never writes to; choose a folder "
                                      "elsewhere",
                                      tier.path.string()));
    }
    if (is_inside(source, tier.path)) {
      return option_error(
          option, fmt::format("{} contains the source; choose a folder of its own for the tier", tier.path.string()));
    }
    const bool twice = std::any_of(tiers.begin(), tiers.end(), [&](const auto& t) { return t.path == tier.path; });
    if (twice) return option_error(option, fmt::format("{} is a tier already", tier.path.string()));
    tiers.push_back(std::move(tier));
  }
  return {};
}

io::Result<cache::SharedTierOptions> parse_peers(const CacheArguments& arguments) {
  cache::SharedTierOptions shared{.peers = arguments.peers, .bytes_per_peer = 0};
  if (arguments.share.empty() && shared.peers.empty() && arguments.peer_tls.empty()) return shared;
  if (shared.peers.empty() && !arguments.peer_tls.empty()) {
    return option_error("--peer-tls", "with whom? Name the nodes, for instance --peers n1,n2");
  }
  if (!arguments.peer_tls.empty()) {
    shared.certificates = canonical_path(arguments.peer_tls);
    const io::Status good = cache::check_peer_certificates(shared.certificates);
    if (!good) return option_error("--peer-tls", good.error().context);
  }
  if (shared.peers.empty()) return option_error("--share", "with whom? Name the nodes, for instance --peers n1,n2");
  io::Result<std::vector<std::string>> names = list_peers(shared.peers);
  if (!names) return option_error("--peers", names.error().context);
  if (names->empty()) return option_error("--peers", "the list is empty");
  shared.peers = std::move(*names);
  if (arguments.share.empty()) {
    return option_error("--peers", "how much memory does each memcached have? Say it, for instance --share 64G");
  }
  io::Result<std::uint64_t> bytes = parse_size(arguments.share);
  if (!bytes) return option_error("--share", bytes.error().context);
  if (*bytes == 0) return option_error("--share", "0 holds nothing; leave out --peers");
  shared.bytes_per_peer = *bytes;
  return shared;
}

constexpr Choice<cache::ListingRule> kListings[] = {{"imagefolder", cache::ListingRule::kImageFolder},
                                                    {"timm", cache::ListingRule::kTimm},
                                                    {"dali", cache::ListingRule::kDali},
                                                    {"keras", cache::ListingRule::kKeras},
                                                    {"sorted", cache::ListingRule::kSorted}};
constexpr Choice<io::EngineOptions::Kind> kEngines[] = {{"auto", io::EngineOptions::Kind::kAutomatic},
                                                        {"uring", io::EngineOptions::Kind::kUring},
                                                        {"pread", io::EngineOptions::Kind::kPread}};

// A catalog that is missing costs a scan, so those that were used last are enough: 64 data sets are more than anybody
// trains on in turn, and 4 GiB hold the catalogs of 60 data sets with a million files each.
constexpr KeepLimits kKeptCatalogs = {.files = 64, .bytes = std::uint64_t{4} << 30};
// As many, of 3 MiB at most.
constexpr KeepLimits kKeptOpenings = {.files = 64, .bytes = std::uint64_t{192} << 20};

// A data set that is listed in two ways has two catalogs. Removes the oldest of the others.
io::Result<fs::path> catalog_file_of(const fs::path& source, const CacheArguments& arguments) {
  const fs::path list = arguments.sample_list.empty() ? fs::path() : canonical_path(arguments.sample_list);
  const std::string identity = fmt::format("{}\n{}\n{}", source.string(), arguments.listing, list.string());
  HEADRACE_TRY(directory, io::cache_directory());
  const fs::path file = directory / file_name_for(source.filename().native(), identity, kCatalogEnding);
  prune(directory, kCatalogEnding, kKeptCatalogs, [&file](const fs::path& other) { return other == file; });
  prune(directory, kOpeningEnding, kKeptOpenings, [](const fs::path&) { return false; });
  return file;
}

// The same however its user writes it.
io::Result<Source> name_bucket(const std::string& url) {
  io::Result<cache::ObjectStoreOptions> bucket = cache::parse_object_url(url);
  if (!bucket) {
    bucket.error().context.insert(0, fmt::format("source {}: ", io::printable(url)));
    return io::forward_error(std::move(bucket));
  }
  std::string prefix = bucket->prefix;
  while (prefix.ends_with('/')) prefix.pop_back();
  const std::string scheme = url.substr(0, url.find("://"));
  return Source{fmt::format("{}://{}{}{}", scheme, bucket->bucket, prefix.empty() ? "" : "/", prefix), io::UniqueFd()};
}

io::Status set_bucket_options(const CacheArguments& arguments, cache::StoreOptions& options) {
  const bool is_bucket = cache::is_object_url(options.source.native());
  const bool any = !arguments.endpoint.empty() || !arguments.region.empty() || !arguments.profile.empty() ||
                   arguments.no_sign_request || arguments.requester_pays;
  if (any && !is_bucket) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("source {} is a folder; --endpoint, --region, --aws-profile, --no-sign-request and "
                                  "--requester-pays are for a bucket, s3://BUCKET/PREFIX",
                                  options.source.string()));
  }
  options.bucket = make_bucket_options(arguments);
  return {};
}

}  // namespace

io::Result<std::uint64_t> parse_ram(std::string_view option, std::string_view text) {
  const std::uint64_t limit = io::memory_limit_bytes();
  io::Result<std::uint64_t> bytes = parse_size(text, limit);
  if (!bytes) return option_error(option, bytes.error().context);
  if (*bytes > limit) {
    return option_error(option, fmt::format("{}: this machine (or container) has {} of memory; take less, or a share "
                                            "such as 50%",
                                            text, format_size(limit)));
  }
  return bytes;
}

io::Result<Source> open_source(const fs::path& path) {
  if (cache::is_object_url(path.native())) return name_bucket(path.native());
  Source source{canonical_path(path), io::UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC))};
  if (source.directory.get() >= 0) return source;
  if (errno == ENOTDIR) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("source {} is not a folder; name the folder that holds the samples", path.string()));
  }
  const int open_errno = errno;
  if (path.native().find("://") != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("source {} is no folder; a bucket is named s3://BUCKET/PREFIX, and where it is by "
                                  "--endpoint URL",
                                  path.string()));
  }
  return io::system_error(open_errno, "source " + path.string());
}

cache::ObjectStoreOptions make_bucket_options(const CacheArguments& arguments) {
  cache::ObjectStoreOptions options;
  options.endpoint = arguments.endpoint;
  options.region = arguments.region;
  options.profile = arguments.profile;
  options.no_sign_request = arguments.no_sign_request;
  options.requester_pays = arguments.requester_pays;
  return options;
}

io::Result<cache::CatalogOptions> make_catalog_options(const CacheArguments& arguments) {
  HEADRACE_TRY(rule, choose("--listing", arguments.listing, kListings));
  cache::CatalogOptions options;
  options.listing = rule;
  options.accept_unreadable = arguments.accept_unreadable;
  if (!arguments.sample_list.empty()) options.sample_list = canonical_path(arguments.sample_list);
  return options;
}

io::Result<cache::StoreOptions> make_store_options(const Source& source, const CacheArguments& arguments,
                                                   std::string_view ram_default) {
  HEADRACE_TRY(catalog, make_catalog_options(arguments));
  HEADRACE_TRY(engine, choose("--engine", arguments.engine, kEngines));
  HEADRACE_TRY(ram, parse_ram("--ram", arguments.ram.empty() ? ram_default : arguments.ram));

  cache::StoreOptions options;
  options.source = source.path;
  options.source_fd = source.directory.get();
  options.catalog = std::move(catalog);
  options.ram_bytes = ram;
  options.engine.kind = engine;
  HEADRACE_TRY_DO(set_bucket_options(arguments, options));
  using cache::TierKind;
  HEADRACE_TRY_DO(add_tiers("--ssd", TierKind::kSsd, arguments.ssd, source.path, options.tiers));
  HEADRACE_TRY_DO(add_tiers("--hdd", TierKind::kHdd, arguments.hdd, source.path, options.tiers));
  HEADRACE_TRY(shared, parse_peers(arguments));
  options.shared = std::move(shared);
  HEADRACE_TRY(catalog_file, catalog_file_of(source.path, arguments));
  options.catalog_file = std::move(catalog_file);
  return options;
}

io::Status check_not_empty(const fs::path& source, const cache::Catalog& catalog) {
  if (catalog.sample_count() > 0) return {};
  if (cache::is_object_url(source.native())) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} holds no objects; is the prefix right? A prefix is a folder: s3://BUCKET/FOLDER",
                                  source.string()));
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("source {} holds no samples; is it the right folder, and mounted?", source.string()));
}

std::string describe_links_out(const fs::path& source, const cache::Catalog& catalog) {
  std::uint64_t count = 0;
  fs::path first;  // where it leads
  for (cache::SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    const cache::EntryId entry = catalog.sample_entry(sample);
    if (!catalog.is_symlink(entry) || ++count > 1) continue;
    const fs::path target = catalog.symlink_target(entry);
    first = (source / catalog.path(catalog.parent(entry)) / target).lexically_normal();
  }
  if (count == 0) return {};
  return fmt::format(
      "{} of {} samples are links that lead out of {}: they are read where they lead, and nothing of them is cached; "
      "mount what they lead to over itself, as {} for the first: headrace mount {} {}",
      count, catalog.sample_count(), source.string(), first.string(), first.parent_path().string(),
      first.parent_path().string());
}

io::Result<std::unique_ptr<cache::Store>> open_store(const cache::StoreOptions& wanted, StopSignal& stop) {
  const EndOnStop end_on_stop(stop);
  const fs::path source = wanted.source;
  std::unique_ptr<cache::Store> store;
  {
    cache::StoreOptions options = wanted;
    CountProgress progress(stderr, "listing " + source.string(), "objects");
    if (!options.on_listing) options.on_listing = [&](std::uint64_t count) { progress.update(count); };
    HEADRACE_TRY(opened, cache::Store::open(options));
    store = std::move(opened);
  }
  HEADRACE_TRY_DO(check_not_empty(source, store->catalog()));
  return store;
}

// Of "file:PATH", and of a family that reads one: "first:samples=9,of=file:PATH".
std::string absolute_order_spec(const std::string& spec) {
  constexpr std::string_view kFile = "file:";
  constexpr std::string_view kOfFile = ",of=file:";
  const NamedSpec named = parse_named_spec(spec);
  const std::size_t of_file = named.spec.find(kOfFile);
  const bool is_file = named.spec.starts_with(kFile);
  if (!is_file && of_file == std::string::npos) return spec;
  const std::size_t path = is_file ? kFile.size() : of_file + kOfFile.size();
  const std::string name = named.folder.empty() ? "" : named.folder + "=";
  return name + named.spec.substr(0, path) + fs::absolute(named.spec.substr(path)).string();
}

io::Result<std::unique_ptr<cache::Order>> open_order(std::string_view spec, const cache::Catalog& catalog,
                                                     ListFiles lists) {
  const NamedSpec named = parse_named_spec(std::string(spec));
  if (!named.folder.empty()) return open_folder_order(named, catalog, lists);
  cache::OrderInput input;
  input.sample_count = catalog.sample_count();
  input.regular_files_only = lists == ListFiles::kRegular;
  input.find_sample = [&catalog](std::string_view path) -> std::optional<cache::SampleIndex> {
    const std::optional<cache::EntryId> entry = catalog.find(path);
    return entry ? catalog.sample_of(*entry) : std::nullopt;
  };
  return cache::make_order(spec, input);
}

io::Result<std::shared_ptr<const cache::RecordSet>> open_packs(const Source& source, const cache::Catalog& catalog,
                                                               const CacheArguments& arguments,
                                                               const std::string& records) {
  if (!arguments.sample_list.empty()) return option_error("--records", "is of all packs there; leave out --samples");
  if (source.is_bucket()) {
    return option_error("--records:", fmt::format("the index of a pack is read from a folder; mount {} and name the "
                                                  "mount",
                                                  source.path.string()));
  }
  return cache::open_record_set(source.directory.get(), catalog, records);
}

io::Result<DataSet> open_data_set(const fs::path& source_path, const CacheArguments& arguments,
                                  std::string_view order_spec, const std::string& records) {
  HEADRACE_TRY(source, open_source(source_path));
  CacheArguments listing = arguments;
  if (!records.empty()) listing.listing = "sorted";  // an image beside the pack must not hide it
  HEADRACE_TRY(options, make_store_options(source, listing, "0"));
  HEADRACE_TRY(catalog, cache::open_catalog(options));
  HEADRACE_TRY_DO(check_not_empty(source.path, catalog));
  if (records.empty()) {
    HEADRACE_TRY(order, open_order(order_spec, catalog));
    return DataSet{std::move(source), std::move(catalog), nullptr, std::move(order)};
  }
  HEADRACE_TRY(set, open_packs(source, catalog, arguments, records));
  HEADRACE_TRY(order, cache::make_record_order(order_spec, set, false));
  return DataSet{std::move(source), std::move(catalog), std::move(set), std::move(order)};
}

}  // namespace headrace::cli
