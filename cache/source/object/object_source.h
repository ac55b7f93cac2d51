// SPDX-License-Identifier: Apache-2.0
// A source that is a bucket: reads become GETs for one version of an object.
//
//   auto tree = std::make_shared<ObjectTree>(std::move(client));
//   auto source = std::make_unique<ObjectSource>("s3://bucket/train", tree);
//
// The client tries again what may pass. A GET says which ETag it wants. Where the identity has only a hash of it
// (object_identity.h), the ETag of the answer decides. Before a read ends with kStale the object is asked what it is
// now, so that SourceTree::look_at() answers at once.
//
// The client's thread does transfers alone: what a read brought is handed on by a thread of this source's own.
//
// Thread-safety: every function from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "headrace/cache/source/object/object_tree.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/source/source_counts.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

class ObjectSource final : public Source {
 public:
  ObjectSource(const std::string& name, std::shared_ptr<ObjectTree> tree);
  ~ObjectSource() override { ObjectSource::join(); }

  void read(SourceRead& read) override;
  void hurry(const SourceRead* read) override { tree_->client().hurry(read); }
  // Nothing is had without asking the store.
  [[nodiscard]] bool read_now(SourceRead& /*read*/) override { return false; }
  [[nodiscard]] bool has_now(const char* /*path*/, const Identity& /*identity*/) override { return false; }
  void let_go(EntryId /*entry*/) override {}
  void post(std::function<void()> task) override { thread_.after({}, std::move(task)); }
  void stop_retrying() override { tree_->client().stop(); }
  void settle() override;
  void join() override;
  [[nodiscard]] std::shared_ptr<SourceTree> tree() const override { return tree_; }
  [[nodiscard]] TierStats stats() const override { return counts_.stats(); }
  [[nodiscard]] io::EngineInfo engine() const override;
  [[nodiscard]] std::optional<ObjectStoreStats> bucket_stats() const override { return tree_->client().stats(); }

 private:
  struct Request;  // one read under way

  void finish(std::unique_ptr<Request> request, Status status);
  void ask_what_it_is(std::unique_ptr<Request> request);
  void end_stale(Request& request, Result<io::ScannedAttributes> found);

  const std::shared_ptr<ObjectTree> tree_;
  SourceCounts counts_;
  io::TimerThread thread_;  // runs each task at once
};

}  // namespace headrace::cache
