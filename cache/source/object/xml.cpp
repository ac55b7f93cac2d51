// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/xml.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <expat.h>
#include <malloc.h>
#include <string.h>  // NOLINT(modernize-deprecated-headers): explicit_bzero()

#include "headrace/cache/source/object/object_identity.h"
#include "headrace/cache/source/object/uri.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using io::Result;

// Nothing that a store says is deeper than six.
constexpr std::size_t kDepthMax = 16;

// expat's own memory may hold a secret (TokenAnswer): it is overwritten before it goes back to the heap.
void free_wiped(void* memory) {
  if (memory == nullptr) return;
  ::explicit_bzero(memory, ::malloc_usable_size(memory));
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
}

void* realloc_wiped(void* memory, std::size_t size) {
  if (memory == nullptr) return std::malloc(size);  // NOLINT(cppcoreguidelines-no-malloc)
  void* const other = std::malloc(size);            // NOLINT(cppcoreguidelines-no-malloc)
  if (other == nullptr) return nullptr;
  ::memcpy(other, memory, std::min(size, ::malloc_usable_size(memory)));
  free_wiped(memory);
  return other;
}

constexpr XML_Memory_Handling_Suite kWipingMemory = {std::malloc, realloc_wiped, free_wiped};

// Calls back with the path of each element that has ended, as "ListBucketResult/Contents/Key", and its text.
class XmlReader {
 public:
  using OnEnd = std::function<void(std::string_view path, std::string& text)>;

  explicit XmlReader(OnEnd on_end) : on_end_(std::move(on_end)) {}
  ~XmlReader() { io::wipe(text_); }
  XmlReader(const XmlReader&) = delete;
  XmlReader& operator=(const XmlReader&) = delete;

  [[nodiscard]] bool read(std::string_view body) {
    if (body.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return false;
    const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
        XML_ParserCreate_MM(nullptr, &kWipingMemory, nullptr), XML_ParserFree);
    if (parser == nullptr) return false;
    parser_ = parser.get();
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(parser_, &XmlReader::on_start, &XmlReader::on_stop);
    XML_SetCharacterDataHandler(parser_, &XmlReader::on_text);
    XML_SetStartDoctypeDeclHandler(parser_, &XmlReader::on_doctype);
    const XML_Status status = XML_Parse(parser_, body.data(), static_cast<int>(body.size()), XML_TRUE);
    return status == XML_STATUS_OK;
  }

 private:
  static void on_start(void* self, const XML_Char* name, const XML_Char** /*attributes*/) {
    auto& reader = *static_cast<XmlReader*>(self);
    if (reader.ends_.size() >= kDepthMax) {
      static_cast<void>(XML_StopParser(reader.parser_, XML_FALSE));
      return;
    }
    reader.ends_.push_back(reader.path_.size());
    if (!reader.path_.empty()) reader.path_ += '/';
    reader.path_ += name;
    io::wipe(reader.text_);
  }
  static void on_stop(void* self, const XML_Char* /*name*/) {
    auto& reader = *static_cast<XmlReader*>(self);
    reader.on_end_(reader.path_, reader.text_);
    reader.path_.resize(reader.ends_.back());
    reader.ends_.pop_back();
    io::wipe(reader.text_);
  }
  static void on_text(void* self, const XML_Char* text, int bytes) {
    static_cast<XmlReader*>(self)->text_.append(text, static_cast<std::size_t>(bytes));
  }
  static void on_doctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    static_cast<void>(XML_StopParser(static_cast<XmlReader*>(self)->parser_, XML_FALSE));
  }

  const OnEnd on_end_;
  XML_Parser parser_ = nullptr;
  std::string path_;
  std::vector<std::size_t> ends_;  // of the path, without each open element
  std::string text_;
};

std::optional<std::uint64_t> as_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// What parse_list_page() gathers. Names are decoded in the end: the encoding is named after them.
struct PageReader {
  ListPage page;
  ListPage::Item item = {};
  bool is_listing = false;
  bool is_encoded = false;
  bool is_truncated = false;
  bool is_wrong = false;

  void on_end(std::string_view path, std::string& text) {
    constexpr std::string_view kRoot = "ListBucketResult";
    if (!path.starts_with(kRoot)) return;
    path.remove_prefix(kRoot.size());
    if (path.empty()) {
      is_listing = true;
    } else if (path == "/Contents/Key") {
      item.key = std::move(text);
    } else if (path == "/Contents/ETag") {
      item.etag = strong_etag(text);
    } else if (path == "/Contents/Size") {
      const std::optional<std::uint64_t> size = as_number(text);
      is_wrong = is_wrong || !size || *size > std::uint64_t{INT64_MAX};  // no file is so large
      item.size_bytes = size.value_or(0);
    } else if (path == "/Contents/LastModified") {
      item.mtime_ns = std::max<std::int64_t>(0, parse_iso_time(text));
    } else if (path == "/Contents") {
      page.objects.push_back(std::exchange(item, {}));
    } else if (path == "/CommonPrefixes/Prefix") {
      page.folders.push_back(std::move(text));
    } else if (path == "/NextContinuationToken") {
      page.next = std::move(text);
    } else if (path == "/IsTruncated") {
      is_truncated = text == "true";
    } else if (path == "/EncodingType") {
      is_encoded = text == "url";
    }
  }

  [[nodiscard]] bool decode(std::string& name) {
    std::optional<std::string> decoded = decode_key(name);
    if (!decoded) return false;
    name = std::move(*decoded);
    return true;
  }
  [[nodiscard]] bool decode_names() {
    if (!is_encoded) return true;
    for (ListPage::Item& object : page.objects) {
      if (!decode(object.key)) return false;
    }
    for (std::string& folder : page.folders) {
      if (!decode(folder)) return false;
    }
    return true;
  }
};

}  // namespace

Result<ListPage> parse_list_page(std::string_view body) {
  PageReader reader;
  XmlReader xml([&](std::string_view path, std::string& text) { reader.on_end(path, text); });
  if (!xml.read(body) || !reader.is_listing || reader.is_wrong || !reader.decode_names()) {
    return make_error(ErrorCode::kCorrupt, "the answer is no listing of a bucket");
  }
  if (!reader.is_truncated) reader.page.next.clear();
  if (reader.is_truncated && reader.page.next.empty()) {
    return make_error(ErrorCode::kCorrupt, "the listing goes on, but its answer does not say where");
  }
  return std::move(reader.page);
}

StoreError parse_error(std::string_view body) {
  StoreError error;
  XmlReader xml([&](std::string_view path, std::string& text) {
    // The token service puts its errors into an ErrorResponse.
    if (path.starts_with("ErrorResponse/")) path.remove_prefix(std::string_view("ErrorResponse/").size());
    if (path == "Error/Code") {
      error.code = std::move(text);
    } else if (path == "Error/Message") {
      error.message = std::move(text);
    } else if (path == "Error/Region") {
      error.region = std::move(text);
    }
  });
  return xml.read(body) ? error : StoreError{};
}

Result<TokenAnswer> parse_token_answer(std::string_view body) {
  TokenAnswer answer;
  XmlReader xml([&](std::string_view path, std::string& text) {
    const std::size_t at = path.find("/Credentials/");
    if (at == std::string_view::npos) return;
    const std::string_view name = path.substr(at + std::string_view("/Credentials/").size());
    if (name == "AccessKeyId") answer.keys.id = text;
    if (name == "SecretAccessKey") answer.keys.secret = io::Secret::take(text);
    if (name == "SessionToken") answer.keys.session_token = io::Secret::take(text);
    if (name == "Expiration") answer.expiration = text;
  });
  if (!xml.read(body) || answer.keys.id.empty() || answer.keys.secret.empty()) {
    return make_error(ErrorCode::kCorrupt, "the answer holds no keys");
  }
  return answer;
}

std::int64_t parse_iso_time(std::string_view text) {
  // 0123456789012345678
  // 2013-05-24T00:00:00
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') {
    return -1;
  }
  const auto part = [&](std::size_t at, std::size_t digits) { return as_number(text.substr(at, digits)); };
  const auto year = part(0, 4);
  const auto month = part(5, 2);
  const auto day = part(8, 2);
  const auto hour = part(11, 2);
  const auto minute = part(14, 2);
  const auto second = part(17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return -1;
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  // Beyond these years, nanoseconds leave 64 bits.
  if (!date.ok() || *year < 1970 || *year > 2261 || *hour > 23 || *minute > 59 || *second > 60) return -1;
  std::int64_t nanoseconds = 0;
  if (text.size() > 20 && text[19] == '.') {
    std::int64_t unit = 100'000'000;
    for (std::size_t i = 20; i < text.size() && text[i] >= '0' && text[i] <= '9' && unit > 0; ++i, unit /= 10) {
      nanoseconds += (text[i] - '0') * unit;
    }
  }
  const std::chrono::nanoseconds since =
      std::chrono::sys_days(date).time_since_epoch() + std::chrono::seconds(*hour * 3600 + *minute * 60 + *second);
  return since.count() + nanoseconds;
}

}  // namespace headrace::cache
