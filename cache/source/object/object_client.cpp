// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_client.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "headrace/cache/source/object/key_keeper.h"
#include "headrace/cache/source/object/object_settings.h"
#include "headrace/cache/source/object/object_transfers.h"
#include "headrace/io/open_files.h"

namespace headrace::cache {

namespace {

// Each request has a connection, and half of what a process may open is left to all others.
void fit_open_files(ObjectStoreOptions& options) {
  unsigned& most = options.tuning.in_flight_max;
  most = static_cast<unsigned>(std::clamp<std::uint64_t>(io::allow_open_files(most) / 2, 1, most));
  options.tuning.in_flight_first = std::min(options.tuning.in_flight_first, most);
}

}  // namespace

class ObjectClient::Impl {
 public:
  Impl(ObjectStoreOptions settings, Endpoint endpoint, std::unique_ptr<KeyKeeper> keys)
      : options(std::move(settings)), keeper(std::move(keys)), transfers(options, std::move(endpoint), keeper.get()) {}

  // The keeper is the first to end: what it calls back goes to the transfers.
  void join() {
    transfers.stop();
    if (keeper) keeper->join();
    transfers.join();
  }

  const ObjectStoreOptions options;
  const std::unique_ptr<KeyKeeper> keeper;  // null: nothing is signed, or with keys that do not change
  ObjectTransfers transfers;
};

io::Result<std::unique_ptr<ObjectClient>> ObjectClient::open(const ObjectStoreOptions& options) {
  HEADRACE_TRY(settings, complete_options(options));
  HEADRACE_TRY(endpoint, make_endpoint(settings));
  fit_open_files(settings);
  std::unique_ptr<KeyKeeper> keeper;
  if (!settings.no_sign_request && !settings.keys) {
    HEADRACE_TRY(opened, KeyKeeper::open({.environment = settings.environment,
                                          .profile = settings.profile,
                                          .region = settings.region,
                                          .ca_file = settings.ca_file}));
    keeper = std::move(opened);
  }
  auto impl = std::make_unique<Impl>(std::move(settings), std::move(endpoint), std::move(keeper));
  HEADRACE_TRY_DO(impl->transfers.start());
  return std::unique_ptr<ObjectClient>(new ObjectClient(std::move(impl)));
}

ObjectClient::ObjectClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ObjectClient::~ObjectClient() {
  join();
}

void ObjectClient::read(ObjectRead& read) {
  impl_->transfers.submit(&read, nullptr);
}

void ObjectClient::query(ObjectQuery& query) {
  impl_->transfers.submit(nullptr, &query);
}

void ObjectClient::hurry(const void* known_as) {
  impl_->transfers.hurry(known_as);
}

void ObjectClient::stop() {
  impl_->transfers.stop();
}

void ObjectClient::join() {
  impl_->join();
}

ObjectStoreStats ObjectClient::stats() const {
  ObjectStoreStats stats = impl_->transfers.stats();
  if (impl_->keeper) {
    stats.credentials = impl_->keeper->current()->source;
  } else {
    stats.credentials = impl_->options.no_sign_request ? "none" : "options";
  }
  return stats;
}

const ObjectStoreOptions& ObjectClient::options() const {
  return impl_->options;
}

std::string ObjectClient::name() const {
  return name_of(impl_->options);
}

}  // namespace headrace::cache
