// SPDX-License-Identifier: Apache-2.0
// headrace simulate: what a cache of some size would bring for an order, under several policies, and what nodes bring
// each other that share.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/sample_sizes.h"
#include "headrace/cache/shared_forecast.h"
#include "headrace/cache/simulator.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/cache_arguments.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/peer_list.h"
#include "headrace/cli/setup/size.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/terminal.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

constexpr const char* kSharedGroup = "Nodes that share";

struct SimulateArguments {
  std::filesystem::path source;
  CacheArguments cache;  // only how the data set is listed
  std::string order = "torch-distributed:seed=0";
  std::string records;                                      // of packs; empty: the samples are files
  std::vector<std::string> caches = {"25%", "50%", "75%"};  // each a size or a part of the data set
  std::vector<std::string> policies = {"lru", "never-evict", "min"};
  std::uint64_t epochs = 4;
  std::vector<std::uint64_t> nodes;  // how many share; empty: none do
  std::vector<std::string> peers;    // exactly these share
  std::string ram;                   // what each has for itself beside that; empty: nothing
  std::string share;                 // a size: what each of them has
  bool json = false;
};

struct Row {
  std::uint64_t cache_bytes = 0;
  cache::PolicyKind policy = cache::PolicyKind::kNeverEvict;
  cache::SimulationResult result;
};

io::Result<std::vector<cache::PolicyKind>> parse_policies(const std::vector<std::string>& names) {
  std::vector<cache::PolicyKind> policies;
  for (const std::string& name : names) {
    const std::optional<cache::PolicyKind> policy = cache::policy_from_name(name);
    if (!policy) {
      std::string known;
      for (const cache::PolicyKind kind : cache::kAllPolicies) {
        known += (known.empty() ? "" : ", ") + std::string(name_of(kind));
      }
      return make_error(ErrorCode::kInvalidArgument, fmt::format("--policy '{}' is unknown; known: {}", name, known));
    }
    policies.push_back(*policy);
  }
  return policies;
}

io::Result<std::vector<std::uint64_t>> parse_caches(const std::vector<std::string>& texts, std::uint64_t data_bytes) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& text : texts) {
    io::Result<std::uint64_t> bytes = parse_size(text, std::max<std::uint64_t>(data_bytes, 1));
    if (!bytes) return make_error(ErrorCode::kInvalidArgument, "--cache " + bytes.error().context);
    sizes.push_back(*bytes);
  }
  return sizes;
}

void print(const std::vector<Row>& rows, std::uint64_t data_bytes) {
  fmt::print("{:>10} {:>6}  {:<12} {:>7} {:>14} {:>10} {:>12}\n", "cache", "", "policy", "hits", "source reads",
             "at least", "writes/read");
  for (const Row& row : rows) {
    const auto epochs = std::max<std::uint64_t>(row.result.epochs, 1);
    const double part = data_bytes == 0 ? 0 : static_cast<double>(row.cache_bytes) / static_cast<double>(data_bytes);
    fmt::print("{:>10} {:>5.0f}%  {:<12} {:>6.1f}% {:>14} {:>10} {:>12.3f}\n", format_size(row.cache_bytes), 100 * part,
               name_of(row.policy), 100 * row.result.hit_ratio(), row.result.source_reads / epochs,
               row.result.minimum_source_reads / epochs, row.result.writes_per_read());
  }
  print_line(stdout,
             "Reads are per epoch. At least: no cache of that size needs fewer. Writes: to the cache, per read.");
}

json to_json(const std::vector<Row>& rows) {
  json list = json::array();
  for (const Row& row : rows) {
    list.push_back({{"cache_bytes", row.cache_bytes},
                    {"policy", name_of(row.policy)},
                    {"epochs", row.result.epochs},
                    {"reads", row.result.reads},
                    {"hit_ratio", row.result.hit_ratio()},
                    {"byte_hit_ratio", row.result.byte_hit_ratio()},
                    {"source_reads", row.result.source_reads},
                    {"minimum_source_reads", row.result.minimum_source_reads},
                    {"writes_per_read", row.result.writes_per_read()}});
  }
  return {{"rows", std::move(list)}};
}

// Nodes that share, and what that brings in each epoch after the first.
struct SharedRow {
  std::size_t nodes = 0;
  double own = 0;  // part of what a node reads that its own memory has
  cache::SharedForecast forecast;
};

double part_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

io::Result<std::vector<std::vector<std::string>>> lists_of_peers(const SimulateArguments& arguments) {
  std::vector<std::vector<std::string>> lists;
  if (!arguments.peers.empty()) {
    HEADRACE_TRY(names, list_peers(arguments.peers));
    lists.push_back(std::move(names));
  }
  for (const std::uint64_t nodes : arguments.nodes) {
    if (nodes == 0 || nodes > kListedPeersMax) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("--nodes {}: choose 1 to {}", nodes, kListedPeersMax));
    }
    std::vector<std::string>& names = lists.emplace_back();
    for (std::uint64_t node = 1; node <= nodes; ++node) names.push_back(fmt::format("node{}", node));
  }
  return lists;
}

io::Result<std::vector<SharedRow>> forecast_nodes(const SimulateArguments& arguments, const DataSet& data) {
  HEADRACE_TRY(lists, lists_of_peers(arguments));
  io::Result<std::uint64_t> bytes = parse_size(arguments.share, data.catalog.sample_bytes());
  if (!bytes) return make_error(ErrorCode::kInvalidArgument, "--share " + bytes.error().context);
  // An epoch is shuffled, and a node's rank changes with it: memory for a part of the data set has that part of what
  // is read, whether a peer holds it as well or not.
  const std::uint64_t data_bytes = std::max<std::uint64_t>(data.catalog.sample_bytes(), 1);
  io::Result<std::uint64_t> ram = arguments.ram.empty() ? 0 : parse_size(arguments.ram, data_bytes);
  if (!ram) return make_error(ErrorCode::kInvalidArgument, "--ram " + ram.error().context);
  const double own = std::min(1.0, part_of(*ram, data_bytes));
  std::vector<SharedRow> rows;
  for (const std::vector<std::string>& names : lists) {
    HEADRACE_TRY(forecast, cache::forecast_shared(data.catalog, data.source.path.string(), names, *bytes));
    rows.push_back({names.size(), own, std::move(forecast)});
  }
  return rows;
}

// Of so much, what no node's own memory has.
std::uint64_t without_own(const SharedRow& row, std::uint64_t amount) {
  return static_cast<std::uint64_t>(std::llround((1 - row.own) * static_cast<double>(amount)));
}

// Of what is read, what comes from memory: a node's own, or a peer's.
double hit_ratio(const SharedRow& row) {
  const cache::SharedPart held = row.forecast.held();
  return row.own + (1 - row.own) * part_of(held.samples, held.samples + row.forecast.source.samples);
}

// What a node gets from the others in an epoch in which each sample is read by one node: of what all hold, its part,
// but for that which it holds itself.
std::uint64_t received_bytes(const SharedRow& row) {
  return without_own(row, row.forecast.held().bytes / row.nodes * (row.nodes - 1) / row.nodes);
}

void print_shared(const std::vector<SharedRow>& rows) {
  fmt::print("{:>6} {:>7} {:>10} {:>10} {:>14} {:>12} {:>14}\n", "nodes", "hits", "a node", "fullest", "source reads",
             "of source", "from others");
  for (const SharedRow& row : rows) {
    const cache::SharedPart held = row.forecast.held();
    fmt::print("{:>6} {:>6.1f}% {:>10} {:>10} {:>14} {:>12} {:>14}\n", row.nodes, 100 * hit_ratio(row),
               format_size(held.bytes / row.nodes), format_size(row.forecast.fullest_bytes()),
               without_own(row, row.forecast.source.samples), format_size(without_own(row, row.forecast.source.bytes)),
               format_size(received_bytes(row)));
  }
  print_line(stdout,
             "Per epoch after the first, which reads each sample once. A node: what it holds. From others: what a node "
             "receives.");
}

json to_json(const std::vector<SharedRow>& rows) {
  json list = json::array();
  for (const SharedRow& row : rows) {
    const cache::SharedPart held = row.forecast.held();
    list.push_back({{"nodes", row.nodes},
                    {"held_samples", held.samples},
                    {"held_bytes", held.bytes},
                    {"fullest_bytes", row.forecast.fullest_bytes()},
                    {"own_ratio", row.own},
                    {"source_reads", without_own(row, row.forecast.source.samples)},
                    {"source_bytes", without_own(row, row.forecast.source.bytes)},
                    {"received_bytes", received_bytes(row)}});
  }
  return {{"nodes", std::move(list)}};
}

io::Status simulate_nodes(const SimulateArguments& arguments) {
  if (arguments.share.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "how much does each node share? Say it, for instance --share 64G");
  }
  HEADRACE_TRY(data, open_data_set(arguments.source, arguments.cache, arguments.order));
  HEADRACE_TRY(rows, forecast_nodes(arguments, data));
  if (arguments.json) {
    print_json(to_json(rows));
  } else {
    print_shared(rows);
  }
  return {};
}

io::Status run_simulate(const SimulateArguments& arguments) {
  const bool shares = !arguments.nodes.empty() || !arguments.peers.empty();
  if (shares && !arguments.records.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--records: nodes share files; leave out --nodes and --peers");
  }
  if (shares) return simulate_nodes(arguments);
  if (!arguments.share.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--share: how many nodes? Say it, for instance --nodes 8");
  }
  if (!arguments.ram.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--ram: of how many nodes? Say it, for instance --nodes 8; the "
                      "memory of one is --cache");
  }
  HEADRACE_TRY(data, open_data_set(arguments.source, arguments.cache, arguments.order, arguments.records));
  const cache::SampleSizes sizes = data.records ? data.records->content_sizes() : cache::content_sizes(data.catalog);
  const std::uint64_t data_bytes = data.records ? sizes.total() : data.catalog.sample_bytes();
  HEADRACE_TRY(policies, parse_policies(arguments.policies));
  HEADRACE_TRY(caches, parse_caches(arguments.caches, data_bytes));
  HEADRACE_TRY(trace, cache::trace_of(*data.order, {.epochs = arguments.epochs}));

  std::vector<Row> rows;
  for (const std::uint64_t bytes : caches) {
    for (const cache::PolicyKind policy : policies) {
      const std::uint64_t capacity = bytes / sizes.unit_bytes();
      rows.push_back({bytes, policy, cache::simulate(trace, sizes.counts(), {.tiers = {{policy, capacity}}})});
    }
  }
  if (arguments.json) {
    print_json(to_json(rows));
  } else {
    print(rows, data_bytes);
  }
  return {};
}

void add_shared_options(Command& command, SimulateArguments& arguments) {
  command.add({.name = "--nodes",
               .target = &arguments.nodes,
               .value = "N",
               .group = kSharedGroup,
               .help = "So many nodes share what they read; may be repeated"});
  command.add({.name = "--peers",
               .target = &arguments.peers,
               .value = "HOST[:PORT],...",
               .group = kSharedGroup,
               .help = "Exactly these nodes share, as with headrace mount",
               .parts_at_commas = true});
  command.add({.name = "--share",
               .target = &arguments.share,
               .value = "SIZE",
               .group = kSharedGroup,
               .help = "What each shares, also as a part of the data set"});
  command.add({.name = "--ram",
               .target = &arguments.ram,
               .value = "SIZE",
               .group = kSharedGroup,
               .help = "What each has for itself beside that, also as a part of the data set"});
}

}  // namespace

void add_simulate_command(Command& program) {
  std::shared_ptr<SimulateArguments> arguments;
  Command& command = add_command(program, {kHelpCommands, "simulate", "Predict what a cache of some size would bring"},
                                 run_simulate, arguments);
  command.add({.name = "SOURCE",
               .target = &arguments->source,
               .help = "The folder or bucket that holds the data set",
               .required = true});
  command.add({.name = "--order",
               .target = &arguments->order,
               .value = "SPEC",
               .group = kOrderGroup,
               .help = "The order to read in; see headrace order --help",
               .shows_default = true});
  add_records_option(command, arguments->records);
  command.add({.name = "--cache",
               .target = &arguments->caches,
               .value = "SIZE",
               .help = "A cache size, or a part of the data set; may be repeated",
               .shows_default = true});
  command.add({.name = "--policy",
               .target = &arguments->policies,
               .value = "NAME",
               .help = "What the cache keeps; may be repeated",
               .shows_default = true});
  command.add({.name = "--epochs",
               .target = &arguments->epochs,
               .value = "N",
               .help = "How many epochs; the first is not counted",
               .shows_default = true});
  add_shared_options(command, *arguments);
  command.add(json_flag(arguments->json));
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  command.footer =
      "Policies:\n"
      "  lru           the least recently read sample goes: what the page cache does\n"
      "  never-evict   what came first stays: what a tier does without an order\n"
      "  s3-fifo       what is read only once goes first: what the RAM tier does\n"
      "  min           what is read last goes, large files first (Belady)\n\n"
      "Examples:\n"
      "  headrace simulate /data/train --cache 100G --cache 50% --policy lru\n"
      "  headrace simulate /data/train --nodes 8 --nodes 64 --share 64G";
}

}  // namespace headrace::cli
