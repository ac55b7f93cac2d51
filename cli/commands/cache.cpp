// SPDX-License-Identifier: Apache-2.0
// headrace cache ls and rm: the saved catalogs of data sets.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/object_store.h"
#include "headrace/cache/saved_catalog.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/prune.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/io/own_folders.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using nlohmann::json;

struct CacheLsArguments {
  bool json = false;
};

struct CacheRmArguments {
  std::vector<fs::path> sources;
  bool missing = false;  // those whose source is gone, and those that this program cannot read
  bool all = false;
};

struct Saved {
  KeptFile file;
  cache::SavedCatalog catalog;
  std::string problem;  // why it cannot be read; empty: it can
};

io::Result<std::vector<Saved>> saved_catalogs() {
  HEADRACE_TRY(folder, io::cache_directory());
  std::vector<Saved> all;
  for (KeptFile& file : kept_files(folder, kCatalogEnding)) {
    io::Result<cache::SavedCatalog> catalog = cache::describe_catalog(file.path);
    Saved saved{.file = std::move(file)};
    if (catalog) {
      saved.catalog = std::move(*catalog);
    } else {
      saved.problem = catalog.error().message();
    }
    all.push_back(std::move(saved));
  }
  return all;
}

std::uint64_t total_bytes(const std::vector<Saved>& all) {
  std::uint64_t bytes = 0;
  for (const Saved& saved : all) bytes += saved.file.bytes;
  return bytes;
}

double unused_seconds(const Saved& saved) {
  return static_cast<double>(std::max<std::int64_t>(std::time(nullptr) - saved.file.used_at, 0));
}

// "today", "3 days": file systems write the time of a read once a day.
std::string age_of(const Saved& saved) {
  constexpr double kDay = 24 * 3600;
  const double days = unused_seconds(saved) / kDay;
  return days < 1 ? "today" : fmt::format("{:.0f} days", days);
}

json to_json(const std::vector<Saved>& all) {
  json catalogs = json::array();
  for (const Saved& saved : all) {
    json each = {{"file", saved.file.path.string()},        {"bytes", saved.file.bytes},
                 {"unused_seconds", unused_seconds(saved)}, {"source", saved.catalog.source},
                 {"samples", saved.catalog.samples},        {"entries", saved.catalog.entries}};
    if (!saved.problem.empty()) each["problem"] = saved.problem;
    catalogs.push_back(std::move(each));
  }
  return {{"catalogs", std::move(catalogs)}};
}

io::Status run_cache_ls(const CacheLsArguments& arguments) {
  HEADRACE_TRY(all, saved_catalogs());
  if (arguments.json) {
    print_json(to_json(all));
    return {};
  }
  if (!all.empty()) fmt::print("{:>9} {:>8}  {:<9} {}\n", "size", "samples", "used", "source");
  for (const Saved& saved : all) {
    fmt::print("{:>9} {:>8}  {:<9} {}\n", format_size(saved.file.bytes), format_count(saved.catalog.samples),
               age_of(saved), io::printable(saved.problem.empty() ? saved.catalog.source : saved.problem));
  }
  print_line(stdout, fmt::format("{} saved catalogs, {}", all.size(), format_size(total_bytes(all))));
  return {};
}

// Whether what was asked for takes this one along.
bool is_chosen(const Saved& saved, const CacheRmArguments& arguments, const std::vector<fs::path>& sources) {
  if (arguments.all) return true;
  std::error_code failure;
  const bool is_gone =
      !saved.problem.empty() || (!cache::is_object_url(saved.catalog.source) &&  // nobody is asked for a bucket
                                 fs::status(saved.catalog.source, failure).type() == fs::file_type::not_found);
  if (arguments.missing && is_gone) return true;
  return std::find(sources.begin(), sources.end(), saved.catalog.source) != sources.end();
}

io::Status run_cache_rm(const CacheRmArguments& arguments) {
  if (arguments.sources.empty() && !arguments.missing && !arguments.all) {
    return make_error(ErrorCode::kInvalidArgument,
                      "cache rm needs a SOURCE, --missing or --all; headrace cache ls lists them");
  }
  std::vector<fs::path> sources;
  for (const fs::path& source : arguments.sources) {
    sources.push_back(cache::is_object_url(source.native()) ? source : canonical_path(source));
  }
  HEADRACE_TRY(all, saved_catalogs());
  for (const fs::path& source : sources) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const Saved& s) { return s.catalog.source == source; });
    if (known) continue;
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("no catalog of {} is saved; headrace cache ls lists those that are", source.string()));
  }
  std::erase_if(all, [&](const Saved& saved) { return !is_chosen(saved, arguments, sources); });
  for (const Saved& saved : all) {
    std::error_code failure;
    fs::remove(saved.file.path, failure);
    if (failure) return io::system_error(failure.value(), "remove " + saved.file.path.string());
    fs::remove(saved.file.path.string() + std::string(kOpeningEnding), failure);  // there may be none
  }
  print_line(stdout, fmt::format("{} saved catalogs removed, {}", all.size(), format_size(total_bytes(all))));
  return {};
}

void add_cache_ls(Command& cache) {
  std::shared_ptr<CacheLsArguments> arguments;
  Command& command =
      add_command(cache, {"Commands", "ls", "List them, those that were used last first"}, run_cache_ls, arguments);
  command.add(json_flag(arguments->json));
  command.footer = "Example:\n  headrace cache ls";
}

void add_cache_rm(Command& cache) {
  std::shared_ptr<CacheRmArguments> arguments;
  Command& command = add_command(
      cache, {"Commands", "rm", "Remove some of them; the next mount scans its source again"}, run_cache_rm, arguments);
  command.add({.name = "SOURCE", .target = &arguments->sources, .help = "Folders whose catalogs go"});
  command.add({.name = "--missing",
               .target = &arguments->missing,
               .help = "Those whose folder is gone, and those of other versions"});
  command.add({.name = "--all", .target = &arguments->all, .help = "All of them"});
  command.footer = "Examples:\n  headrace cache rm /data/train\n  headrace cache rm --missing";
}

}  // namespace

void add_cache_command(Command& program) {
  Command& cache = add_command(program, {kDataCommands, "cache", "List or remove the saved catalogs of data sets"});
  cache.needs_command = true;
  cache.footer =
      "A catalog is what a scan of the source found. The 64 that were used last are\n"
      "kept, up to 4 GiB. headrace cache COMMAND --help tells more about a command.";
  add_cache_ls(cache);
  add_cache_rm(cache);
}

}  // namespace headrace::cli
