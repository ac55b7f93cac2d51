// SPDX-License-Identifier: Apache-2.0
// From the name of a source to its tree and its reads.
//
//   HEADRACE_TRY(opened, open_source({.path = "/data/imagenet"}));
//   HEADRACE_TRY(catalog, opened.tree->open_catalog(options, file));
//   HEADRACE_TRY(source, opened.open_reads(timers));
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "headrace/cache/object_store.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/source/source_tree.h"
#include "headrace/io/engine.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

// As the fields of StoreOptions.
struct SourceOptions {
  std::filesystem::path path;
  ObjectStoreOptions bucket = {};
  int directory_fd = -1;
  bool path_covered = false;
  std::filesystem::path catalog_file;
  bool catalog_may_be_old = false;
  std::function<void(std::uint64_t objects)> on_listing = {};
  io::EngineOptions engine = {};
  std::optional<bool> rotational;
  std::function<Result<std::unique_ptr<io::Engine>>()> make_engine;
};

struct OpenedSource {
  std::shared_ptr<SourceTree> tree;
  // Errors: those of open_engine().
  std::function<Result<std::unique_ptr<Source>>(io::TimerThread& timers)> open_reads;
};

// Errors: as open_source_root(); for a bucket those of parse_object_url() and ObjectClient::open().
[[nodiscard]] Result<OpenedSource> open_source(const SourceOptions& options);

}  // namespace headrace::cache
