// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/confirm.h"

#include <memory>
#include <string>
#include <utility>

namespace headrace::cache {
namespace {

// Ownership: its own; deletes itself once answered.
struct Question {
  StoreParts& store;
  const EntryId entry;
  const std::string path;
  const std::function<void(Status)> done;
  SourceRead read;
};

}  // namespace

void confirm(StoreParts& store, EntryId entry, const Identity& identity, bool here, std::function<void(Status)> done) {
  std::string path = store.catalog.path(entry);
  if (store.source->has_now(path.c_str(), identity)) {
    store.identities.confirm(entry);
    return done({});
  }
  auto* question = new Question{store, entry, std::move(path), std::move(done), {}};
  question->read.path = question->path.c_str();
  question->read.identity = identity;
  question->read.here = here;
  question->read.context = question;
  question->read.on_done = [](SourceRead& read, Status status) {
    const std::unique_ptr<Question> answered(static_cast<Question*>(read.context));
    if (status) answered->store.identities.confirm(answered->entry);
    answered->done(std::move(status));
  };
  store.source->read(question->read);
}

}  // namespace headrace::cache
