// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_source.h"

#include <future>
#include <utility>

#include "headrace/cache/source/object/object_identity.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

io::ScannedAttributes attributes_of(const ObjectRead::Found& found) {
  return attributes_of_object({.etag = found.etag, .size_bytes = found.object_bytes, .mtime_ns = found.mtime_ns});
}

}  // namespace

struct ObjectSource::Request {
  ObjectSource& source;
  SourceRead& read;
  const std::string etag;  // empty: not known, so that the answer's is compared
  ObjectRead object = {};
};

ObjectSource::ObjectSource(const std::string& name, std::shared_ptr<ObjectTree> tree)
    : tree_(std::move(tree)), counts_(name), thread_("hr-source") {}

void ObjectSource::read(SourceRead& read) {
  auto* request = new Request{*this, read, etag_of(read.identity)};
  request->object = {.key = read.path,
                     .etag = request->etag.empty() ? nullptr : request->etag.c_str(),
                     .object_bytes = read.identity.size_bytes,
                     .mtime_ns = written_at(read.identity),
                     .offset = read.range.offset,
                     .length = read.range.length,
                     .into = read.buffer.data(),
                     .ahead = read.ahead,
                     .known_as = &read,
                     .on_done =
                         [](ObjectRead& object, Status status) {
                           auto* const self = static_cast<Request*>(object.context);
                           self->source.post([self, status = std::move(status)]() mutable {
                             self->source.finish(std::unique_ptr<Request>(self), std::move(status));
                           });
                         },
                     .context = request};
  tree_->client().read(request->object);
}

void ObjectSource::finish(std::unique_ptr<Request> request, Status status) {
  SourceRead& read = request->read;
  if (status && request->etag.empty() && !has_etag(read.identity, request->object.found.etag)) {
    return end_stale(*request, attributes_of(request->object.found));
  }
  if (!status && status.error().code == ErrorCode::kStale) return ask_what_it_is(std::move(request));
  if (!status) {
    counts_.note_failure(status.error());
    return read.on_done(read, std::move(status));
  }
  read.data = read.buffer.data();
  counts_.note_success(read.range.length);
  read.on_done(read, {});
}

void ObjectSource::ask_what_it_is(std::unique_ptr<Request> request) {
  Request* const asking = request.release();
  asking->object = {.key = asking->read.path,
                    .on_done =
                        [](ObjectRead& object, Status status) {
                          auto* const self = static_cast<Request*>(object.context);
                          self->source.post([self, status = std::move(status)]() mutable {
                            const std::unique_ptr<Request> asked(self);
                            const auto found =
                                std::move(status).map([&] { return attributes_of(asked->object.found); });
                            asked->source.end_stale(*asked, found);
                          });
                        },
                    .context = asking};
  tree_->client().read(asking->object);
}

void ObjectSource::end_stale(Request& request, Result<io::ScannedAttributes> found) {
  const ObjectTree::Seen seen(*tree_, request.read.path, std::move(found));
  request.read.on_done(request.read, tl::unexpected<io::Error>(counts_.note_stale(request.read.path)));
}

void ObjectSource::settle() {
  std::promise<void> reached;
  post([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

void ObjectSource::join() {
  tree_->client().join();
  thread_.stop();
}

io::EngineInfo ObjectSource::engine() const {
  io::EngineInfo info;
  info.name = "http";
  info.queue_depth = tree_->client().stats().in_flight_limit;
  info.queue_depth_max = tree_->client().options().tuning.in_flight_max;
  return info;
}

}  // namespace headrace::cache
