// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/open_source.h"

#include <utility>

#include "headrace/cache/source/folder_source.h"
#include "headrace/cache/source/object/bucket_options.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/object_source.h"
#include "headrace/cache/source/object/object_tree.h"
#include "headrace/cache/source/source_root.h"

namespace headrace::cache {
namespace {

Result<OpenedSource> open_folder(const SourceOptions& options) {
  HEADRACE_TRY(root, open_source_root({.path = options.path,
                                       .directory_fd = options.directory_fd,
                                       .path_covered = options.path_covered,
                                       .catalog_file = options.catalog_file}));
  FolderSourceOptions reads{.name = options.path.string(),
                            .remount_path = options.path_covered ? std::filesystem::path() : options.path,
                            .engine = options.engine,
                            .rotational = options.rotational,
                            .make_engine = options.make_engine};
  return OpenedSource{root, [root, reads = std::move(reads)](io::TimerThread& timers) {
                        return FolderSource::open(reads, root, timers).map([](auto source) -> std::unique_ptr<Source> {
                          return source;
                        });
                      }};
}

Result<OpenedSource> open_bucket(const SourceOptions& options) {
  HEADRACE_TRY(bucket, bucket_options(options.path.native(), options.bucket));
  HEADRACE_TRY(client, ObjectClient::open(bucket));
  auto tree = std::make_shared<ObjectTree>(std::move(client), options.catalog_may_be_old, options.on_listing);
  return OpenedSource{tree, [tree, name = options.path.string()](io::TimerThread&) -> Result<std::unique_ptr<Source>> {
                        return std::make_unique<ObjectSource>(name, tree);
                      }};
}

}  // namespace

Result<OpenedSource> open_source(const SourceOptions& options) {
  return is_object_url(options.path.native()) ? open_bucket(options) : open_folder(options);
}

}  // namespace headrace::cache
