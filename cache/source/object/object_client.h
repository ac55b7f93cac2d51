// SPDX-License-Identifier: Apache-2.0
// Reads objects of one bucket: many requests at once, each tried again until it has its bytes or a clear answer.
//
//   HEADRACE_TRY(client, ObjectClient::open(options));
//   ObjectRead read{.key = "a/b.jpg", .etag = etag, .object_bytes = size, .length = size, .into = data,
//                   .on_done = ...};
//   client->read(read);                      // on_done runs exactly once
//
// A read names the version that it wants by ETag and size. Each GET carries the ETag in If-Match, and the answer's own
// ETag and length are compared before a byte is taken: an answer of another version ends with kStale. Where an answer
// names no ETag, its Last-Modified is compared; one that has neither is refused.
//
// What may pass is tried again (object_verdict.h): at most 6 times or 60 s, with pauses drawn at random so that readers
// that failed together do not come back together. A read gets a second request where the first takes far longer than
// others do; the faster one wins, and one that is late as well is followed by another one.
//
// Requests wait in queues of the client's own and not in libcurl: what somebody waits for goes before what is read
// ahead. How many are in flight follows what they bring (request_window.h).
//
// Thread-safety: every function from any thread; join() once, not from on_done. One thread, hr-objects, does all
// transfers; hr-credentials renews keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "headrace/cache/object_store.h"
#include "headrace/io/result.h"

namespace headrace::cache {

// One read of a range of an object; with length 0 a HEAD: the object is compared, not read.
// Ownership: the caller's, with all that it points to; must neither move nor die until on_done has run (exactly once,
// also after stop()).
struct ObjectRead {
  const char* key = nullptr;              // relative to the prefix
  const char* etag = nullptr;             // wanted, without the quotes; nullptr: whatever the object is now
  std::uint64_t object_bytes = kAnySize;  // the size of the whole object that is wanted
  // When the version that is wanted was written, in whole seconds; counts where the answer names no ETag. 0: not known.
  std::int64_t mtime_ns = kAnyTime;
  std::uint64_t offset = 0;  // the range lies within the object
  std::uint64_t length = 0;
  std::byte* into = nullptr;       // `length` bytes, written until on_done runs
  bool ahead = false;              // nobody waits for it yet
  const void* known_as = nullptr;  // by what hurry() finds it; of no other read that is under way
  // Runs on the client's thread and must not block; once stop() was called, also on the thread that calls read().
  // kNotFound: no such object. kStale: it is another one, or shorter. kPermission, kTimedOut, kSystem: as they say.
  // kCancelled: stop().
  void (*on_done)(ObjectRead& self, io::Status status) = nullptr;
  void* context = nullptr;

  // Set before on_done on success: what the store says of the object.
  struct Found {
    std::string etag;  // without the quotes; empty: the store names none, or a weak one
    std::uint64_t object_bytes = 0;
    std::int64_t mtime_ns = 0;  // 0: the store does not say
  };
  Found found = {};

  static constexpr std::uint64_t kAnySize = UINT64_MAX;
  static constexpr std::int64_t kAnyTime = -1;
};

// The body of one page of a listing, as list_objects() asks for it.
struct ObjectQuery {
  std::string query;  // "list-type=2&prefix=...", sorted and encoded as the signature wants it
  void (*on_done)(ObjectQuery& self, io::Status status) = nullptr;  // as ObjectRead::on_done
  void* context = nullptr;
  std::string body = {};  // on success
};

class ObjectClient {
 public:
  // Finds the keys, which may ask a server on this machine or in its network, and starts the threads. The bucket is not
  // asked for anything yet: head(), read() and list_objects() tell what is wrong with it.
  // Errors: kInvalidArgument (a name or URL that is none, a profile that is not there), kPermission (a source of keys
  // that was named gave none).
  [[nodiscard]] static io::Result<std::unique_ptr<ObjectClient>> open(const ObjectStoreOptions& options);
  ~ObjectClient();
  ObjectClient(const ObjectClient&) = delete;
  ObjectClient& operator=(const ObjectClient&) = delete;

  void read(ObjectRead& read);
  // Asks the bucket itself something.
  void query(ObjectQuery& query);
  // Somebody waits now for a read ahead: if it is queued, it goes to where such reads are; if it is late, it gets a
  // second request. The read is only looked for: of no effect when on_done has run.
  void hurry(const void* known_as);
  // Ends what is queued and in flight, and what comes later, with kCancelled. Does not wait.
  void stop();
  // stop(), and waits until every on_done has run and the threads have ended.
  void join();

  [[nodiscard]] ObjectStoreStats stats() const;
  [[nodiscard]] const ObjectStoreOptions& options() const;  // with what the environment and the profile added
  [[nodiscard]] std::string name() const;                   // name_of(options())

 private:
  class Impl;
  explicit ObjectClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::cache
