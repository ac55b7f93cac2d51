// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/mount.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "headrace/cache/chunk.h"
#include "headrace/cache/order_book.h"
#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/fuse/kernel/mounted_at.h"
#include "headrace/fuse/kernel/overlay.h"
#include "headrace/fuse/kernel/requests.h"
#include "headrace/fuse/kernel/session.h"
#include "headrace/fuse/opens/follower.h"
#include "headrace/fuse/opens/list_files.h"
#include "headrace/fuse/opens/lister.h"
#include "headrace/fuse/opens/open_log.h"
#include "headrace/fuse/opens/openings.h"
#include "headrace/fuse/push/pressure.h"
#include "headrace/fuse/push/pusher.h"
#include "headrace/fuse/survive/renewal.h"
#include "headrace/fuse/survive/takeover.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
using io::ErrorCode;
using io::MutexLock;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// stop() as a whole takes under a second: each of the two things that storage can hold up gets this long.
constexpr milliseconds kPatience{300};
// A stand-in does not hear what a worker beside it finds changed, so the kernel must soon ask again.
constexpr double kStandInSeconds = 1;
constexpr std::chrono::seconds kForgetPatience{5};  // one slow read of a changed file; the pusher goes on after it
constexpr milliseconds kProgressInterval{100};
// One READ brings 1 MiB, the largest that the session allows, where the default of 128 KiB takes several.
constexpr unsigned kReadAheadKiB = 1024;

// Of the budget, for the pages by which programs find records in packs; where these take more, records are worth more.
constexpr std::uint64_t kIndexShare = 8;

// Of the store's memory, for what is fetched ahead of openings. A READ of any file and the largest piece that is pushed
// have room beside it, 8 MiB and a page each.
constexpr std::uint64_t kOpeningBytesMax = 16 << 20;
constexpr std::uint64_t kBesideOpeningsBytes = 17 << 20;
// Half of it is for one file: ranges of 256 KiB, one on its way and one that waits for its READ.
constexpr std::uint64_t kOpeningBytesLeast = 1 << 20;

enum class Unmount : std::uint8_t { kNo, kYes };

bool is_mostly_large_files(const cache::Catalog& catalog) {
  std::uint64_t large = 0;
  std::uint64_t all = 0;
  for (cache::EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (!catalog.is_file(entry)) continue;
    const std::uint64_t size = catalog.size_bytes(entry);
    all += size;
    if (cache::is_chunked(size)) large += size;
  }
  return large > all / 2;
}

// One more than keep the processors busy: it stays ready for requests while the others wait for storage.
unsigned session_thread_count(unsigned asked) {
  return asked > 0 ? asked : 1 + std::clamp(std::thread::hardware_concurrency(), 2U, 8U);
}

std::uint64_t opening_bytes(std::uint64_t store_ram_bytes) {
  if (store_ram_bytes == 0) return kOpeningBytesMax;  // no limit
  const std::uint64_t spare = store_ram_bytes - std::min(store_ram_bytes, kBesideOpeningsBytes);
  return spare / 2 < kOpeningBytesLeast ? 0 : std::min(kOpeningBytesMax, spare / 2);
}

unsigned push_thread_count(unsigned asked) {
  return asked > 0 ? asked : std::clamp(std::thread::hardware_concurrency() / 2, 2U, 8U);
}

}  // namespace

struct Mount::Impl {
  Impl(cache::Store& store_in, MountOptions options_in) : store(store_in), options(std::move(options_in)) {}
  // Where it is supervised another process may do better, unless somebody said stop().
  ~Impl() { stop(supervised_channel == nullptr ? Unmount::kYes : Unmount::kNo); }

  Status start(Channel& channel);
  Status place_overlay();
  void tell_overlay(const Status& told);
  void forget_changed();
  void wait_until_forgotten();
  void tell_other_names(const Channel& channel);
  [[nodiscard]] Status renew(const cache::Catalog& catalog, const RenewedNames& renewed);
  void raise_read_ahead();
  void follow();
  void make_order_book();
  void make_openings();
  void make_pusher();
  [[nodiscard]] bool answer_read(std::uint64_t inode, const cache::Identity& known, const ReadRange& range,
                                 const Requests::Answer& answer);
  void on_opens(std::span<const cache::SampleIndex> samples);
  void on_heard(std::span<const cache::SampleIndex> samples);
  void on_read(cache::EntryId entry, const ReadRange& range);
  void bind_records();
  void tell_large_records();
  [[nodiscard]] std::shared_ptr<Requests> make_requests(bool serves_others);
  [[nodiscard]] bool lacks(cache::EntryId entry) const;
  void note(const cache::CatalogChanges& changes);
  void on_changed(const cache::CatalogChanges& changes);
  void tell_changed_packs(std::span<const cache::EntryId> entries);
  void look_for_pause();
  void set_ram_bytes(std::uint64_t bytes);
  void note_shortage(std::string_view reason);
  void add_fallback(std::string line);
  void stop(Unmount unmount = Unmount::kYes);
  void stop_helpers();

  cache::Store& store;
  MountOptions options;
  std::optional<Channel> own_channel;
  Channel* supervised_channel = nullptr;  // null: it is our own
  std::uint64_t renewals = 0;
  bool is_renewed = false;     // the process before left because of renew()
  Takeover takeover;           // pages: the plan's; changed: as changed_files; the rest for start() and renew()
  std::filesystem::path path;  // of the mount point, resolved
  std::string device;          // of the mount below an overlay, as mountinfo names it
  std::unique_ptr<Overlay> overlay;
  std::shared_ptr<Inodes> inodes;
  std::unique_ptr<Openings> openings;  // null: none are recorded
  std::unique_ptr<cache::OrderBook> orders;
  std::shared_ptr<Pusher> pusher;
  std::shared_ptr<ListFiles> list_files;  // null: nobody wants to know of lists
  bool is_paused = false;                 // reading ahead, as far as was told; by the plan's thread
  std::atomic<steady_clock::time_point> opened_at = steady_clock::time_point::min();  // min: nothing was opened yet
  std::atomic<bool> blind = false;  // not all opens are seen: READs stand for them
  OpenLog open_log;
  std::shared_ptr<Session> session;
  Requests* requests = nullptr;  // the session's
  std::unique_ptr<Follower> follower;
  std::unique_ptr<Lister> lister;

  mutable io::Mutex budget_mutex;  // held while set_ram_bytes() replaces the watch
  std::uint64_t ram_bytes HEADRACE_GUARDED_BY(budget_mutex) = 0;
  std::unique_ptr<PressureWatch> pressure HEADRACE_GUARDED_BY(budget_mutex);

  io::Mutex stop_mutex;
  bool stopped HEADRACE_GUARDED_BY(stop_mutex) = false;
  mutable io::Mutex mutex;
  std::vector<std::string> fallbacks HEADRACE_GUARDED_BY(mutex);
  std::unordered_set<cache::EntryId> changed_packs HEADRACE_GUARDED_BY(mutex);  // that fallbacks name
  std::string shortage HEADRACE_GUARDED_BY(mutex);  // why the budget is not whole; empty: it is
  std::optional<ChangedFiles> changed_files HEADRACE_GUARDED_BY(mutex);
};

Result<std::unique_ptr<Mount>> Mount::start(cache::Store& store, MountOptions options) {
  HEADRACE_TRY(channel, open_channel({.mountpoint = options.mountpoint,
                                      .source_name = options.source_name,
                                      .allow_other = options.allow_other,
                                      .over_source = options.over_source}));
  auto impl = std::make_unique<Impl>(store, std::move(options));
  impl->own_channel.emplace(std::move(channel));
  HEADRACE_TRY_DO(impl->start(*impl->own_channel));
  return std::unique_ptr<Mount>(new Mount(std::move(impl)));
}

Result<std::unique_ptr<Mount>> Mount::start(cache::Store& store, MountOptions options, Channel& channel) {
  auto impl = std::make_unique<Impl>(store, std::move(options));
  impl->supervised_channel = &channel;
  HEADRACE_TRY_DO(impl->start(channel));
  return std::unique_ptr<Mount>(new Mount(std::move(impl)));
}

Status stand_in(cache::Store& store, Channel& channel) {
  HEADRACE_TRY(takeover, open_takeover(channel, store.catalog()));
  const std::shared_ptr<Inodes> inodes = make_inodes(store.catalog(), takeover, true);
  ChangedFiles(store.catalog(), takeover.changed, takeover.head->changed_count).tell(store, *inodes);
  auto requests = std::make_shared<Requests>(
      store, inodes, channel.serves_others(), [](cache::EntryId, const ReadRange&) {}, nullptr, kStandInSeconds);
  HEADRACE_TRY(session,
               Session::open(channel, RequestLog::Role::kStandIn, Requests::operations(), std::move(requests)));
  session->take_over();
  HEADRACE_TRY_DO(session->start(session_thread_count(0)));
  session->wait_until_ended();
  return {};
}

Mount::Mount(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Mount::~Mount() = default;
void Mount::stop() {
  impl_->stop();
}
void Mount::wait() {
  impl_->session->wait_until_ended();
}

// The threads that answer come first: everything after them goes through the mount itself.
Status Mount::Impl::start(Channel& channel) {
  const bool takes_over = channel.init_answered();
  path = channel.path();
  device = channel.device();
  HEADRACE_TRY(left, open_takeover(channel, store.catalog(), &options.fallbacks));
  takeover = left;
  renewals = channel.generation();
  inodes = make_inodes(store.catalog(), takeover, takes_over);
  is_renewed = takeover.head->is_untold;
  if (takes_over && !is_renewed) ++takeover.head->takeovers;
  ChangedFiles known(store.catalog(), takeover.changed, takeover.head->changed_count);
  known.tell(store, *inodes);
  {
    MutexLock lock(mutex);
    changed_files.emplace(std::move(known));
  }
  const std::vector<MountEntry> mounts = mounts_at(path);
  const bool is_here = std::ranges::any_of(mounts, [this](const MountEntry& entry) { return entry.device == device; });
  for (std::string& line : options.fallbacks) add_fallback(std::move(line));
  if (options.records) bind_records();
  if (options.records) tell_large_records();
  make_order_book();
  if (!takes_over) make_openings();  // else the kernel has pages of files that were opened before
  make_pusher();
  std::shared_ptr<Requests> handler = make_requests(channel.serves_others());
  requests = handler.get();
  overlay =
      std::make_unique<Overlay>(store.catalog(), path, [this](auto folder) { return requests->above_overlay(folder); });
  if (is_here && mounts.back().is_overlay()) overlay->take_over();
  HEADRACE_TRY(opened, Session::open(channel, RequestLog::Role::kWorker, Requests::operations(), std::move(handler)));
  session = std::move(opened);
  store.set_change_listener([this](const cache::CatalogChanges& changes) { on_changed(changes); });
  session->take_over();
  HEADRACE_TRY_DO(session->start(session_thread_count(options.session_threads)));
  HEADRACE_TRY_DO(place_overlay());
  raise_read_ahead();
  pusher->set_source_rate(options.source_rate);
  if (takes_over && options.records) {
    for (const cache::Pack& pack : options.records->packs()) pusher->forget_all(pack.entry);
  }
  pusher->start(session, push_thread_count(options.push_threads),
                {.on_opens = [this](auto samples) { on_heard(samples); },
                 .on_overflow =
                     [this] {
                       if (!options.records) orders->on_events_lost();
                     }},
                [this](auto entries) { tell_overlay(overlay->forget(entries)); });
  if (takes_over) forget_changed();
  if (is_renewed) tell_other_names(channel);
  follow();
  set_ram_bytes(options.ram_bytes);
  return {};
}

std::shared_ptr<Requests> Mount::Impl::make_requests(bool serves_others) {
  auto handler = std::make_shared<Requests>(
      store, inodes, serves_others, [this](cache::EntryId entry, const ReadRange& range) { on_read(entry, range); },
      [this](cache::EntryId entry) { return lacks(entry); });
  handler->hear_of_other_numbers([this](std::uint64_t inode) {
    if (overlay->is_asked_again(inode)) pusher->forget_all(store.catalog().parent(inodes->entry_of(inode)));
  });
  if (options.records) handler->refuse_read_ahead();
  if (options.records || openings) {
    handler->set_answerer([this](std::uint64_t inode, const cache::Identity& known, const ReadRange& range,
                                 const Requests::Answer& answer) { return answer_read(inode, known, range, answer); },
                          options.records ? Requests::Asked::kAllFiles : Requests::Asked::kLargeFiles);
  }
  return handler;
}

bool Mount::Impl::answer_read(std::uint64_t inode, const cache::Identity& known, const ReadRange& range,
                              const Requests::Answer& answer) {
  const PageRange pages{range.offset, range.length};
  if (pusher->answer_read(inode, pages, answer)) return true;
  return openings && cache::is_chunked(known.size_bytes) &&
         openings->answer_read(inodes->entry_of(inode), known, pages, answer);
}

// What is pushed is right whatever the map says, but a map of another version says nothing about what is read. So the
// source is asked what each pack is now: the catalog may be a saved one. What it is then is noted like any change, or
// its inode would stand for the version before. The kernel is not told, as it has no answer yet. One pack that is
// another version has other records, so that those after it have other numbers.
void Mount::Impl::bind_records() {
  store.set_change_listener([this](const cache::CatalogChanges& changes) { note(changes); });
  for (const cache::Pack& pack : options.records->packs()) {
    const Status looked = store.look_at(pack.entry);
    const Result<cache::Identity> now = store.identity(pack.entry);
    if (looked && now && pack.map.is_of(*now)) continue;
    const std::string reason = !looked ? looked.error().message()
                               : !now  ? now.error().message()
                                       : "is another version than its records were looked up in";
    add_fallback(store.catalog().path(pack.entry) + ": " + reason + "; packs are read as plain files");
    options.records.reset();
    options.orders.given.clear();
    return;
  }
}

// They are read when they are asked for.
void Mount::Impl::tell_large_records() {
  const cache::SampleSizes sizes = options.records->content_sizes();
  const auto is_large = [this](std::uint32_t bytes) { return bytes > options.ram_bytes; };
  const auto large = std::ranges::count_if(sizes.counts(), is_large);
  if (large == 0 || options.ram_bytes == 0) return;
  add_fallback(
      fmt::format("{} of {} records are larger than the memory to push to ({} MiB) and are read from the "
                  "source; give more --ram",
                  large, sizes.size(), options.ram_bytes >> 20));
}

// Who died before may have died before it told the kernel.
void Mount::Impl::forget_changed() {
  std::vector<cache::EntryId> entries;
  {
    MutexLock lock(mutex);
    entries = changed_files->entries();
  }
  if (entries.empty()) return;
  pusher->on_changed(entries);
  wait_until_forgotten();
}

// The kernel keeps for good which names a folder has and has not.
void Mount::Impl::tell_other_names(const Channel& channel) {
  const Result<cache::Catalog> before = cache::Catalog::load_fd(channel.catalog_before_fd());
  if (before) tell_names(*before, store.catalog(), *inodes, *session);
  if (!before) add_fallback("the kernel may not show all names: the catalog before: " + before.error().message());
  if (before) tell_overlay(overlay->forget_since(*before));
  takeover.head->is_untold = false;
}

// The threads that use the mount itself end first: killed while they wait for an answer, they would hold up the
// successor. Readers are answered as long as this takes. From the translation on nothing may change, so the locks are
// held until the process has gone.
Status Mount::Impl::renew(const cache::Catalog& catalog, const RenewedNames& renewed) {
  if (supervised_channel == nullptr) {
    return io::make_error(ErrorCode::kUnsupported, "unmount and mount to see them; this mount has no supervisor");
  }
  HEADRACE_TRY(renewal, Renewal::prepare(*supervised_channel, store.catalog(), takeover, catalog));
  MutexLock lock_stop(stop_mutex);
  if (stopped) return io::make_error(ErrorCode::kCancelled, "the mount ends");
  io::log_info("mount {}: goes on with {} names, of which {} are new; {} have vanished", path.string(),
               catalog.entry_count(), renewed.appeared, renewed.vanished);
  pusher->request_stop();
  [[maybe_unused]] const bool in_time = pusher->wait_stopped(steady_clock::now() + kForgetPatience);
  lister->stop();
  const auto finish = [&](const PushPlan& plan) {
    MutexLock lock(mutex);
    const bool has_begun = takeover.head->epoch != options.orders.first_epoch || takeover.head->position > 0;
    const bool is_read = plan.order() != nullptr && has_begun && !takeover.head->follows_before;
    renewal.finish(*changed_files, *inodes, renewed, is_read);
    supervised_channel->begin_next();
    while (true) ::kill(::getpid(), SIGKILL);
  };
  orders->leave_to_other_samples([&] { pusher->plan().use(finish); });
  return {};
}

void Mount::Impl::wait_until_forgotten() {
  if (pusher->wait_until_forgotten(steady_clock::now() + kForgetPatience)) return;
  io::log_warning("mount {}: the kernel still waits for reads of changed files; it forgets their old bytes after them",
                  path.string());
}

Status Mount::Impl::place_overlay() {
  const bool is_scratch = !options.scratch.empty();
  if (!is_scratch && options.overlay == OverlayMode::kOff) return {};
  Status placed = overlay->place(options.scratch);
  if (placed || is_scratch || options.overlay == OverlayMode::kRequired) return placed;
  add_fallback("no overlay: " + placed.error().message());
  return {};
}

void Mount::Impl::tell_overlay(const Status& told) {
  if (!told) add_fallback("the overlay may not show all as it is: " + told.error().message());
}

// Not where most bytes are in large files. Each page fault of a reader of records brings as much as may be read ahead,
// and what surrounds a record at a random place is of no use; streams are read ahead by the store.
void Mount::Impl::raise_read_ahead() {
  if (is_mostly_large_files(store.catalog())) return;
  const std::string file = "/sys/class/bdi/" + device + "/read_ahead_kb";
  std::ofstream setting(file);
  setting << kReadAheadKiB << std::flush;
  if (!setting) add_fallback("readahead stays at 128 KiB: " + io::Error{ErrorCode::kSystem, errno, file}.message());
}

void Mount::Impl::follow() {
  const auto on_unwatched = [this](const io::Error& reason) {
    blind.store(true);
    add_fallback("opens are not all seen, the reader is followed by what it asks for: " + reason.message());
  };
  Result<std::unique_ptr<Follower>> opened =
      Follower::open(store.catalog(), {.on_opens = [this](auto samples) { on_opens(samples); },
                                       .on_overflow = [this] { pusher->plan().on_overflow(); }});
  if (opened) {
    follower = std::move(*opened);
  } else {
    on_unwatched(opened.error());
  }
  lister = std::make_unique<Lister>(store.catalog(), path, device, follower.get(), on_unwatched);
}

void Mount::Impl::set_ram_bytes(std::uint64_t bytes) {
  MutexLock lock(budget_mutex);
  ram_bytes = bytes;
  pressure.reset();
  note_shortage("");
  pusher->plan().set_budget(bytes);
  if (bytes == 0) return;
  const auto change = [this, bytes](std::uint64_t budget, std::string_view reason) {
    io::log_warning("mount {}: {} of {} MiB may be pushed now{}{}", path.string(), budget >> 20, bytes >> 20,
                    reason.empty() ? "" : ": ", reason);
    note_shortage(reason);
    pusher->plan().limit_budget(budget);
  };
  const auto held = [this] {
    return pusher->plan().progress().held_bytes + (options.held_by_others ? options.held_by_others() : 0);
  };
  const auto move_budget = [this] {
    const std::optional<std::uint64_t> copies = pusher->plan().on_pages_dropped();
    if (!copies) return;
    io::log_info("mount {}: the kernel drops pushed pages; {} MiB of the budget now hold copies in the daemon's memory",
                 path.string(), *copies >> 20);
  };
  pressure = std::make_unique<PressureWatch>(
      bytes, PressureCallbacks{.is_losing = [this] { return pusher->plan().take_losses(); },
                               .held_bytes = held,
                               .on_change = change,
                               .on_dropped = move_budget});
  if (pressure->has_psi()) return;
  add_fallback("memory pressure is noticed only when pushed pages are dropped: no /proc/pressure/memory");
}

void Mount::Impl::note_shortage(std::string_view reason) {
  MutexLock lock(mutex);
  shortage = reason;
}

void Mount::Impl::make_order_book() {
  cache::OrderLearnerOptions learning;
  if (options.records) {
    learning.sample_count = options.records->count();
  } else {
    learning.sample_count = store.catalog().sample_count();
    learning.parts = cache::top_level_parts(store.catalog());
  }
  orders = std::make_unique<cache::OrderBook>(options.orders, std::move(learning), takeover.head->follows_before);
}

void Mount::Impl::make_openings() {
  if (options.opening_file.empty()) return;
  const std::uint64_t store_ram_bytes = store.stats().tiers.front().budget_bytes;
  openings = std::make_unique<Openings>(
      store, OpeningsOptions{.file = options.opening_file, .memory_bytes = opening_bytes(store_ram_bytes)});
}

void Mount::Impl::make_pusher() {
  PushPlanOptions plan{.budget_bytes = options.ram_bytes,
                       .order = orders->next(),
                       .others_bytes = openings ? openings->memory_bytes() : 0};
  if (options.records)
    plan.records = std::make_shared<const PackRecords>(options.records, options.ram_bytes / kIndexShare);
  const bool learns_of_opens = orders->learns() && !options.records;
  if (learns_of_opens) plan.next_unseen = [this] { return orders->next_unseen(); };
  pusher =
      std::make_shared<Pusher>(store, inodes, std::make_shared<MountedAt>(path, device), takeover, std::move(plan));
  orders->begin(pusher->plan());
  if (!learns_of_opens) return;
  list_files = std::make_shared<ListFiles>(
      store, [this](cache::OrderLearner::SamplesWithin within) { orders->on_list(std::move(within)); });
}

void Mount::Impl::look_for_pause() {
  const std::uint64_t opens = pusher->plan().paused_opens();
  if (std::exchange(is_paused, opens > 0) == (opens > 0)) return;
  if (opens == 0) return io::log_info("mount {}: reading ahead goes on", path.string());
  io::log_warning(
      "mount {}: what was read ahead cost the source more than it saved; nothing is read ahead for {} opens, or until "
      "another order is known",
      path.string(), opens);
}

void Mount::Impl::on_opens(std::span<const cache::SampleIndex> samples) {
  opened_at = steady_clock::now();
  if (options.records) return;  // an open does not say which
  open_log.add(samples);
  pusher->plan().on_opens(samples);
}

// By the plan, of opens or of READs that stand for them: a thread that answers the kernel waits for none of this.
void Mount::Impl::on_heard(std::span<const cache::SampleIndex> samples) {
  const std::optional<cache::OrderBook::GivenUp> given_up = orders->on_opens(samples);
  if (given_up) {
    io::log_warning("mount {}: the loader does not read as {} says; that order is given up", path.string(),
                    given_up->spec);
    if (!given_up->next.empty()) io::log_info("mount {}: the order is taken for {}", path.string(), given_up->next);
  }
  look_for_pause();
}

// A READ that the page cache could not serve.
void Mount::Impl::on_read(cache::EntryId entry, const ReadRange& range) {
  if (openings && cache::is_chunked(store.catalog().size_bytes(entry)))
    openings->on_read(entry, {range.offset, range.length});
  if (options.records) {
    if (options.records->find_pack(entry)) pusher->plan().on_pack_read(entry, {range.offset, range.length});
    return;
  }
  const std::optional<cache::SampleIndex> sample = store.catalog().sample_of(entry);
  if (!sample && list_files) list_files->on_read(entry);
  if (!sample) return;
  pusher->plan().on_read(*sample, {range.offset, range.length});
  if (range.offset != 0 || !blind.load(std::memory_order_relaxed)) return;
  opened_at = steady_clock::now();
  open_log.add({&*sample, 1});
  pusher->plan().on_open_by_read(*sample);
}

bool Mount::Impl::lacks(cache::EntryId entry) const {
  if (options.records) return false;  // not known by files
  const std::optional<cache::SampleIndex> sample = store.catalog().sample_of(entry);
  return sample && pusher->plan().lacks(*sample);
}

void Mount::Impl::add_fallback(std::string line) {
  io::log_warning("mount {}: {}", path.string(), line);
  MutexLock lock(mutex);
  if (std::ranges::find(fallbacks, line) == fallbacks.end()) fallbacks.push_back(std::move(line));
}

void Mount::Impl::stop(Unmount unmount) {
  MutexLock lock(stop_mutex);
  if (std::exchange(stopped, true)) return;
  if (openings) openings->stop();  // nobody tells it of changes from here on
  if (list_files) list_files->stop();
  store.set_change_listener({});
  if (session) stop_helpers();
  if (unmount == Unmount::kYes) {
    if (const Status unmounted = unmount_device(path, device, session ? session->fd() : -1); !unmounted) {
      io::log_error("{}", unmounted.error().message());
    }
  }
  if (!session) return;  // start() failed early
  if (!requests->drain(steady_clock::now() + kPatience)) {
    io::log_warning("mount {}: ended while reads were waiting for storage", path.string());
  }
  session->stop();
  // Who opened a file before the mount went may have asked once more, and nobody takes requests any longer. Reads that
  // wait for storage are answered still.
  if (!requests->drain(steady_clock::now() + kPatience)) return;
  session->hang_up();
  if (own_channel) own_channel->hang_up();
}

// Their requests go through the mount, so they end before it does.
void Mount::Impl::stop_helpers() {
  pusher->request_stop();
  if (!pusher->wait_stopped(steady_clock::now() + kPatience)) abort_connection(path, device);
  pusher->join();
  if (lister) lister->stop();
  {
    MutexLock lock(budget_mutex);
    pressure.reset();
  }
  follower.reset();
}

// The store answers with the new version from now on. Whoever has opened the one before goes on with what the kernel
// has of it.
void Mount::Impl::note(const cache::CatalogChanges& changes) {
  MutexLock lock(mutex);
  for (const cache::EntryId entry : changes.vanished) changed_files->note_vanished(entry);
  for (const auto& [entry, attributes] : changes.attributes) changed_files->note_attributes(entry, attributes, *inodes);
  for (const cache::CatalogChanges::Changed& each : changes.changed)
    changed_files->note(each.entry, each.identity, *inodes);
}

void Mount::Impl::on_changed(const cache::CatalogChanges& changes) {
  note(changes);
  for (const auto& [entry, ignored] : changes.attributes) {
    [[maybe_unused]] const int unknown = session->invalidate_attributes(inodes->of(entry));  // ENOENT: no need to
    if (store.catalog().is_directory(entry)) pusher->forget_all(entry);  // an overlay is to be told after that
  }
  std::vector<cache::EntryId> entries = changes.vanished;
  for (const cache::CatalogChanges::Changed& each : changes.changed) entries.push_back(each.entry);
  if (openings) openings->on_changed(entries);
  if (list_files) list_files->on_changed(entries);
  tell_changed_packs(entries);
  if (!entries.empty()) pusher->on_changed(entries);
}

void Mount::Impl::tell_changed_packs(std::span<const cache::EntryId> entries) {
  if (!options.records) return;
  for (const cache::EntryId entry : entries) {
    if (!options.records->find_pack(entry)) continue;
    {
      MutexLock lock(mutex);
      if (!changed_packs.insert(entry).second) continue;
    }
    add_fallback(store.catalog().path(entry) + ": has changed; it is read as a plain file until it is mounted anew");
  }
}

Status Mount::renew(const cache::Catalog& catalog, const RenewedNames& renewed) {
  return impl_->renew(catalog, renewed);
}

bool Mount::has_renewed() const {
  return impl_->is_renewed;
}

void Mount::wait_until_forgotten() {
  impl_->wait_until_forgotten();
}

namespace {

void add_found_order(cache::OrderBook::Found found, MountStats& stats) {
  stats.order_found_by = std::move(found.by);
  stats.order_confidence_bits = found.confidence_bits;
  stats.order_opens = found.opens;
  stats.order_search_cpu_seconds = found.search_cpu_seconds;
  stats.order_search_seeds = found.search_seeds;
  stats.order_search_seeds_tested = found.search_seeds_tested;
  stats.order_search_seeds_per_second = found.search_seeds_per_second;
}

void add_read_figures(const ReadFigures& figures, MountStats& stats) {
  stats.read_wait_seconds = figures.wait_seconds();
  for (const ReadFigures::Wait& wait : figures.waits()) stats.read_waits.push_back({wait.seconds_max, wait.count});
  for (const ReadFigures::Failure& failure : figures.failures()) {
    stats.read_failure_reasons.push_back({failure.reason, failure.count});
    stats.read_failures += failure.count;
  }
}

}  // namespace

MountStats Mount::stats() const {
  MountStats stats;
  impl_->pusher->add_stats(stats);
  for (std::size_t opcode = 0; opcode < kOpcodeCount; ++opcode) {
    const std::uint64_t count = impl_->session->request_count(opcode);
    if (count == 0) continue;
    stats.requests.push_back({opcode_name(opcode), count});
    stats.request_total += count;
  }
  stats.read_bytes = impl_->requests->read_bytes();
  add_read_figures(impl_->requests->read_figures(), stats);
  {
    MutexLock lock(impl_->budget_mutex);
    stats.ram_bytes = impl_->ram_bytes;
  }
  if (impl_->openings) stats.opening_reads = impl_->openings->answered();
  stats.listed = impl_->lister->done();
  stats.overlay = impl_->overlay->is_there();
  stats.learns_order = impl_->orders->learns();
  add_found_order(impl_->orders->found(), stats);
  const steady_clock::time_point opened_at = impl_->opened_at;
  if (opened_at != steady_clock::time_point::min()) {
    stats.seconds_since_open = std::chrono::duration<double>(steady_clock::now() - opened_at).count();
  }
  stats.takeovers = impl_->takeover.head->takeovers;
  stats.renewals = impl_->renewals;
  stats.renewed = impl_->takeover.head->renewed;
  MutexLock lock(impl_->mutex);
  stats.fallbacks = impl_->fallbacks;
  stats.shortage = impl_->shortage;
  return stats;
}

bool Mount::reads_records() const {
  return impl_->options.records != nullptr;
}

void Mount::set_order(std::shared_ptr<const cache::Order> order, std::uint64_t epoch) {
  if (reads_records()) {  // it would be over files
    return io::log_warning("mount {}: the order of its records cannot be changed; mount it anew", impl_->path.string());
  }
  impl_->orders->set({.order = std::move(order), .epoch = epoch, .may_be_wrong = true});
}

Status Mount::check_learns() const {
  if (impl_->orders->learns()) return {};
  return io::make_error(ErrorCode::kUnsupported,
                        reads_records() ? "a mount with --records goes along the order that it was mounted with"
                                        : "this mount looks for no order; mount it anew with --order auto");
}

Status Mount::learn_order() {
  HEADRACE_TRY_DO(check_learns());
  impl_->orders->learn_anew();
  return {};
}

Mount::Opens Mount::opens(std::uint64_t first) const {
  OpenLog::Part part = impl_->open_log.from(first);
  return {.first = part.first, .samples = std::move(part.opens)};
}

void Mount::set_source_rate(std::uint64_t bytes_per_second) {
  impl_->pusher->set_source_rate(bytes_per_second);
}

void Mount::set_ram_bytes(std::uint64_t bytes) {
  impl_->set_ram_bytes(bytes);
}

Result<PinOutcome> Mount::pin(std::span<const cache::SampleIndex> samples) {
  return impl_->pusher->pin(samples);
}

Status Mount::evict(std::span<const cache::SampleIndex> samples) {
  return impl_->pusher->evict(samples);
}

std::vector<cache::SampleIndex> Mount::pinned(cache::SampleIndex first, std::size_t count) const {
  return impl_->pusher->plan().pinned(first, count);
}

Status Mount::push_until_full(const std::function<bool(const PushProgress&)>& on_progress) {
  if (impl_->pusher->plan().budget_bytes() == 0)
    return io::make_error(ErrorCode::kInvalidArgument, "the mount has no RAM budget");
  impl_->pusher->plan().fill();
  bool full = false;
  do {
    full = impl_->pusher->wait_full(steady_clock::now() + kProgressInterval);
    if (impl_->session->ended()) return io::make_error(ErrorCode::kCancelled, "the mount has ended");
  } while (on_progress(impl_->pusher->plan().progress()) && !full);
  return {};
}

}  // namespace headrace::fuse
