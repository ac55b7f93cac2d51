// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <utility>

#include "headrace/cache/object_store.h"
#include "headrace/cache/source/object/bucket_options.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/uri.h"

namespace headrace::cache {

io::Result<ObjectStoreStats> probe_bucket(std::string_view url, const ObjectStoreOptions& options) {
  HEADRACE_TRY(named, bucket_options(url, options));
  HEADRACE_TRY(client, ObjectClient::open(named));
  std::promise<io::Status> answered;
  ObjectQuery query{.query = make_query({{"list-type", "2"}, {"max-keys", "1"}, {"prefix", named.prefix}}),
                    .on_done =
                        [](ObjectQuery& self, io::Status status) {
                          static_cast<std::promise<io::Status>*>(self.context)->set_value(std::move(status));
                        },
                    .context = &answered};
  client->query(query);
  HEADRACE_TRY_DO(answered.get_future().get());
  return client->stats();
}

}  // namespace headrace::cache
