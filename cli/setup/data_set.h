// SPDX-License-Identifier: Apache-2.0
// Turns the words of the command line into an open data set: source, tiers, order.
//
//   auto source = open_source("/data/imagenet");
//   auto options = make_store_options(*source, arguments.cache, "25%");
//   auto store = cache::Store::open(std::move(*options));
//   auto order = open_order(arguments.order, (*store)->catalog());
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "headrace/cache/order.h"
#include "headrace/cache/record_set.h"
#include "headrace/cache/store.h"
#include "headrace/cli/setup/cache_arguments.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {

// The source folder, held open: it can be reached even when a mount covers its path. Or a bucket, by its name alone.
struct Source {
  std::filesystem::path path;  // canonical; of a bucket its URL
  io::UniqueFd directory;      // of a folder

  [[nodiscard]] bool is_bucket() const { return !directory.valid(); }
};
// Errors: kNotFound, kPermission, kInvalidArgument (not a folder, not a bucket's URL), each naming the path.
[[nodiscard]] io::Result<Source> open_source(const std::filesystem::path& path);

// How the files end that saved catalogs are, in io::cache_directory().
inline constexpr std::string_view kCatalogEnding = ".catalog";
// Of what is kept beside a catalog: cache/opening_profile.h.
inline constexpr std::string_view kOpeningEnding = ".opening";

// Memory for samples: a size, or a part of the machine's such as 40%. Errors: kInvalidArgument (no size, or more than
// there is), with `option` before it.
[[nodiscard]] io::Result<std::uint64_t> parse_ram(std::string_view option, std::string_view text);

// How a bucket is reached.
[[nodiscard]] cache::ObjectStoreOptions make_bucket_options(const CacheArguments& arguments);
[[nodiscard]] io::Result<cache::CatalogOptions> make_catalog_options(const CacheArguments& arguments);

// `ram_default` is used where --ram was not given. The Source must outlive the Store that is made of the options.
// Errors: kInvalidArgument (a size, a tier inside the source, a folder that is named twice), kNotFound (sample list).
[[nodiscard]] io::Result<cache::StoreOptions> make_store_options(const Source& source, const CacheArguments& arguments,
                                                                 std::string_view ram_default);

// Errors: kNotFound for a data set without samples. The user most likely meant another folder, or a share is not
// mounted.
[[nodiscard]] io::Status check_not_empty(const std::filesystem::path& source, const cache::Catalog& catalog);

// Opens the store. A signal that comes meanwhile ends the process: the scan of a large data set takes long, and nothing
// is lost. `stop` must exist before, because the store's threads inherit the signals that it blocks.
// Errors: those of Store::open, check_not_empty().
[[nodiscard]] io::Result<std::unique_ptr<cache::Store>> open_store(const cache::StoreOptions& options,
                                                                   StopSignal& stop);

// Makes the path in "file:list.txt" absolute, because a daemon leaves this folder. Returns other specs unchanged.
[[nodiscard]] std::string absolute_order_spec(const std::string& spec);
enum class ListFiles : std::uint8_t {
  kAny,      // pipes too: the user who typed the command can end it
  kRegular,  // for a daemon, which must not wait for a pipe that nobody writes to
};
// "train=SPEC" is over that folder alone (cli/setup/sets.h).
[[nodiscard]] io::Result<std::unique_ptr<cache::Order>> open_order(std::string_view spec, const cache::Catalog& catalog,
                                                                   ListFiles lists = ListFiles::kAny);

// What is lost, and what to do, where samples are links that lead out of the source; empty: none is.
[[nodiscard]] std::string describe_links_out(const std::filesystem::path& source, const cache::Catalog& catalog);

// The records of the packs in the source. `records`: as open_record_set() takes it. Errors: its own, and
// kInvalidArgument where the source is a bucket, or a list says which files are samples.
[[nodiscard]] io::Result<std::shared_ptr<const cache::RecordSet>> open_packs(const Source& source,
                                                                             const cache::Catalog& catalog,
                                                                             const CacheArguments& arguments,
                                                                             const std::string& records);

// A data set that is listed and ordered but not read. It has at least one sample.
struct DataSet {
  Source source;
  cache::Catalog catalog;
  std::shared_ptr<const cache::RecordSet> records;  // the samples, over which the order is; null: they are files
  std::unique_ptr<cache::Order> order;
};
// `records`: as open_packs() takes it; empty: the samples are files.
[[nodiscard]] io::Result<DataSet> open_data_set(const std::filesystem::path& source, const CacheArguments& arguments,
                                                std::string_view order_spec, const std::string& records = "");

}  // namespace headrace::cli
