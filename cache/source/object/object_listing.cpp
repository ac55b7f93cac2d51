// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_listing.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "headrace/cache/source/object/key_ranges.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/uri.h"
#include "headrace/cache/source/object/xml.h"
#include "headrace/io/log.h"
#include "headrace/io/memory_limit.h"
#include "headrace/io/mutex.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using io::MutexLock;
using io::Result;

// Two pages tell how far a thousand keys lie apart. Each page more would cost a whole latency, and guesses that find
// nothing are asked for only where requests are left over.
constexpr unsigned kPagesBeforeSplit = 2;
constexpr std::size_t kSkippedNamesMax = 10;
constexpr std::size_t kNameBytesMax = 255;  // NAME_MAX
constexpr std::size_t kKeyBytesMax = 1024;  // S3's own bound; what is in folders without an end has no other
// A store that passes over what was deleted may answer with no key at all, and say that there are more.
constexpr unsigned kEmptyPagesMax = 1000;
// It becomes a part of a URL, of which servers take 8 to 16 KiB. Those that are a key in base64 have 2 KiB.
constexpr std::size_t kTokenBytesMax = 8192;

struct Page;

// Where answers wait for the caller's thread. It outlives a walk that ends early, with the pages that are under way.
struct Mailbox {
  io::Mutex mutex;
  io::CondVar changed;
  std::vector<std::unique_ptr<Page>> arrived HEADRACE_GUARDED_BY(mutex);
};

struct Page {
  KeyRange range;
  ObjectQuery query;
  io::Status status;
  std::shared_ptr<Mailbox> box;
};

void on_page(ObjectQuery& query, io::Status status) {
  std::unique_ptr<Page> page(static_cast<Page*>(query.context));
  page->status = std::move(status);
  const std::shared_ptr<Mailbox> box = std::move(page->box);  // a page in the box that held the box would keep both
  MutexLock lock(box->mutex);
  box->arrived.push_back(std::move(page));
  box->changed.notify_one();
}

// A line of a log has room for that much of a name that may have megabytes.
std::string shown(std::string_view key) {
  constexpr std::size_t kShownMax = 300;
  return io::printable(key.substr(0, kShownMax)) + (key.size() > kShownMax ? "..." : "");
}

bool may_be_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= kNameBytesMax &&
         name.find('\0') == std::string_view::npos && name.find('/') == std::string_view::npos;
}

class Walk {
 public:
  Walk(ObjectClient& client, const ListOptions& options, bool may_split)
      : client_(client),
        options_(options),
        prefix_(client.options().prefix),
        box_(std::make_shared<Mailbox>()),
        may_split_(may_split),
        bytes_max_(options.bytes_max > 0 ? options.bytes_max : io::memory_limit_bytes() / 4) {}

  // Folders were cut by the bytes of keys before a page showed that the store has another order: keys may be missing.
  [[nodiscard]] bool was_cut_wrongly() const { return was_cut_ && !may_split_; }

  [[nodiscard]] Result<ObjectListing> run() {
    todo_.push_back({.folder = prefix_ + options_.below});
    while ((!todo_.empty() || in_flight_ > 0) && !was_cut_wrongly()) {
      while (!todo_.empty() && in_flight_ < options_.in_flight_max) ask_for_next();
      HEADRACE_TRY(pages, wait_for_pages());
      for (std::unique_ptr<Page>& page : pages) {
        --in_flight_;
        HEADRACE_TRY_DO(take(*page));
        HEADRACE_TRY_DO(look_at_size());
      }
      if (options_.on_progress) options_.on_progress(listing_.objects.size());
    }
    put_in_order();
    return std::move(listing_);
  }

 private:
  void ask_for_next() {
    auto page = std::make_unique<Page>();
    page->range = std::move(todo_.front());
    todo_.pop_front();
    std::vector<std::pair<std::string, std::string>> parameters = {
        {"list-type", "2"}, {"delimiter", "/"}, {"encoding-type", "url"}, {"prefix", page->range.folder}};
    if (!page->range.token.empty()) {
      parameters.emplace_back("continuation-token", page->range.token);
    } else if (!page->range.after.empty()) {
      parameters.emplace_back("start-after", page->range.after);
    }
    page->query.query = make_query(std::move(parameters));
    page->query.on_done = on_page;
    page->query.context = page.get();
    page->box = box_;
    ++in_flight_;
    client_.query(page.release()->query);  // on_page() has it again
  }

  [[nodiscard]] Result<std::vector<std::unique_ptr<Page>>> wait_for_pages() {
    constexpr std::chrono::milliseconds kLook{100};  // for `stop`, which wakes nobody
    std::vector<std::unique_ptr<Page>> pages;
    MutexLock lock(box_->mutex);
    while (box_->arrived.empty()) {
      if (options_.stop == nullptr) {
        box_->changed.wait(lock);
        continue;
      }
      if (options_.stop->load()) return make_error(ErrorCode::kCancelled, client_.name());
      box_->changed.wait_until(lock, std::chrono::steady_clock::now() + kLook);
    }
    pages.swap(box_->arrived);
    return pages;
  }

  [[nodiscard]] io::Status take(Page& page) {
    if (!page.status) return io::forward_error(std::move(page.status));
    Result<ListPage> parsed = parse_list_page(page.query.body);
    if (!parsed) return make_error(ErrorCode::kCorrupt, client_.name() + ": " + parsed.error().context);
    KeyRange& range = page.range;
    look_at_order(*parsed, range.last);
    std::optional<std::string> beyond;  // the first key behind the range's end
    std::string last = range.last;
    const auto is_in_range = [&](const std::string& key) {
      last = std::max(last, key);
      if (!range.until.empty() && key > range.until) beyond = beyond ? std::min(*beyond, key) : key;
      return key > range.after && (range.until.empty() || key <= range.until);
    };
    for (const ListPage::Item& object : parsed->objects) {
      if (!object.key.starts_with(range.folder)) return wrong_key(object.key);
      if (is_in_range(object.key)) add(object, range.folder);
    }
    for (const std::string& folder : parsed->folders) {
      if (!folder.starts_with(range.folder) || folder == range.folder) return wrong_key(folder);
      if (is_in_range(folder)) add_folder(folder, range.folder);
    }
    if (parsed->next.size() > kTokenBytesMax) return goes_not_on();
    if (beyond) {
      forget_empty(range, *beyond);
    } else if (!parsed->next.empty() && parsed->objects.empty() && parsed->folders.empty()) {
      if (parsed->next == range.token || ++range.empty_pages > kEmptyPagesMax) return goes_not_on();
      range.token = std::move(parsed->next);
      todo_.push_front(std::move(range));
    } else if (!parsed->next.empty()) {
      if (!goes_on(range, last, *parsed)) return goes_not_on();
      go_on(range, std::move(parsed->next), last, *parsed);
    }
    return {};
  }

  // Parts are cut by the bytes of keys, which is S3's order. A store with another one is listed page by page.
  // `last`: the last key of the pages before.
  void look_at_order(const ListPage& page, const std::string& last) {
    const bool goes_back = !page.objects.empty() && page.objects.front().key < last;
    const bool is_sorted = std::ranges::is_sorted(page.objects, {}, &ListPage::Item::key);
    if ((is_sorted && !goes_back) || !may_split_) return;
    may_split_ = false;
    io::log_warning("{}: its keys are not listed in the order of their bytes; large folders are listed page by page",
                    client_.name());
  }

  [[nodiscard]] io::Status look_at_size() const {
    const std::uint64_t bytes =
        listing_.objects.size() * sizeof(ListedObject) + listing_.keys.size() + listing_.etags.size() + folder_bytes_;
    if (bytes <= bytes_max_) return {};
    return make_error(ErrorCode::kNoSpace,
                      fmt::format("{}: its listing has no end that fits into memory: {} objects in {} folders so far; "
                                  "name a prefix with fewer",
                                  client_.name(), listing_.objects.size(), folders_.size()));
  }

  [[nodiscard]] tl::unexpected<io::Error> wrong_key(const std::string& key) const {
    return make_error(ErrorCode::kCorrupt,
                      client_.name() + ": the listing holds what was not asked for: " + shown(key));
  }

  [[nodiscard]] tl::unexpected<io::Error> goes_not_on() const {
    return make_error(ErrorCode::kCorrupt, client_.name() + ": a listing that does not go on");
  }

  static const std::string& first_of(const ListPage& page) {
    return page.objects.empty() ? page.folders.front() : page.objects.front().key;
  }

  // In the order of bytes a page has a key behind all before it; in another order it begins with one that is new there.
  bool goes_on(const KeyRange& range, const std::string& last, const ListPage& page) {
    return may_split_ ? last != range.last : page_begins_.insert(first_of(page)).second;
  }

  void go_on(KeyRange& range, std::string next, const std::string& last, const ListPage& page) {
    if (range.pages == 0) range.first = first_of(page);
    range.last = last;
    range.token = std::move(next);
    ++range.pages;
    range.empty_pages = 0;
    const bool has_room = todo_.size() + in_flight_ < options_.in_flight_max;
    if (range.pages >= kPagesBeforeSplit && has_room && may_split_) {
      for (KeyRange& part : split(range, names_of(page))) {
        todo_.push_back(std::move(part));
        was_cut_ = true;
      }
    }
    todo_.push_front(std::move(range));
  }

  static std::vector<std::string_view> names_of(const ListPage& page) {
    std::vector<std::string_view> names;
    for (const ListPage::Item& object : page.objects) names.emplace_back(object.key);
    for (const std::string& folder : page.folders) names.emplace_back(folder);
    return names;
  }

  // Nothing lies between the end of a range and the next key: parts in between need not be asked for.
  void forget_empty(const KeyRange& range, const std::string& next_key) {
    std::erase_if(todo_, [&](const KeyRange& other) {
      return other.folder == range.folder && other.pages == 0 && other.after >= range.until && !other.until.empty() &&
             other.until < next_key;
    });
  }

  void add(const ListPage::Item& item, const std::string& folder) {
    if (item.key.size() > kKeyBytesMax) return skip(item.key);
    std::string_view key = std::string_view(item.key).substr(prefix_.size());
    const bool is_folder = item.key.size() == folder.size();
    if (is_folder) {
      if (key.empty() || key.size() == options_.below.size()) return;  // what is listed itself
      key.remove_suffix(1);
    } else if (!may_be_name(std::string_view(item.key).substr(folder.size()))) {
      skip(item.key);
      return;
    }
    ListedObject object;
    object.key_offset = listing_.keys.size();
    object.key_bytes = static_cast<std::uint16_t>(key.size());
    object.etag_offset = listing_.etags.size();
    object.etag_bytes = static_cast<std::uint16_t>(std::min<std::size_t>(item.etag.size(), 1024));
    object.size_bytes = item.size_bytes;
    object.mtime_ns = item.mtime_ns;
    object.is_folder = is_folder;
    listing_.keys.append(key);
    listing_.etags.append(item.etag, 0, object.etag_bytes);
    listing_.objects.push_back(object);
  }

  void add_folder(const std::string& folder, const std::string& above) {
    std::string_view name = std::string_view(folder).substr(above.size());
    name.remove_suffix(1);
    if (!may_be_name(name) || folder.size() > kKeyBytesMax) {
      skip(folder);
      return;
    }
    std::string key = folder.substr(prefix_.size(), folder.size() - prefix_.size() - 1);
    const std::uint64_t bytes = 2 * (sizeof(KeyRange) + folder.size());  // in both lists
    if (!folders_.insert(std::move(key)).second) return;
    folder_bytes_ += bytes;
    todo_.push_back({.folder = folder});
  }

  void skip(const std::string& key) {
    ++listing_.skipped;
    name_skipped(key);
  }
  void name_skipped(std::string_view key) {
    if (listing_.skipped_names.size() < kSkippedNamesMax) listing_.skipped_names.push_back(shown(key));
  }

  void put_in_order() {
    std::vector<ListedObject>& objects = listing_.objects;
    std::erase_if(objects, [&](const ListedObject& object) {
      if (object.is_folder || !folders_.contains(std::string(listing_.key(object)))) return false;
      ++listing_.shadowed;
      name_skipped(listing_.key(object));
      return true;
    });
    std::sort(objects.begin(), objects.end(), [&](const ListedObject& one, const ListedObject& other) {
      return listing_.key(one) < listing_.key(other);
    });
    // Written while it was listed, it may be on two pages.
    const auto twice = [&](const ListedObject& one, const ListedObject& other) {
      return listing_.key(one) == listing_.key(other);
    };
    objects.erase(std::unique(objects.begin(), objects.end(), twice), objects.end());
  }

  ObjectClient& client_;
  const ListOptions& options_;
  const std::string& prefix_;
  const std::shared_ptr<Mailbox> box_;
  std::deque<KeyRange> todo_;
  unsigned in_flight_ = 0;
  bool may_split_;
  bool was_cut_ = false;
  const std::uint64_t bytes_max_;
  std::uint64_t folder_bytes_ = 0;
  std::unordered_set<std::string> page_begins_;  // of pages that are not in the order of bytes
  std::unordered_set<std::string> folders_;      // relative to the prefix, without '/' at the end
  ObjectListing listing_;
};

}  // namespace

io::Result<ObjectListing> list_objects(ObjectClient& client, const ListOptions& options) {
  Walk walk(client, options, true);
  Result<ObjectListing> listing = walk.run();
  if (!walk.was_cut_wrongly()) return listing;
  return Walk(client, options, false).run();
}

}  // namespace headrace::cache
