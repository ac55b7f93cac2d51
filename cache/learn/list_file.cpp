// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/list_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace headrace::cache {
namespace {

constexpr std::size_t kSamplesLeast = 16;  // as many opens are looked at first
// So many lines tell how the others are to be read; a heading may be among them.
constexpr std::size_t kFirstLines = 64;
constexpr std::uint64_t kNamesMost = 1 << 22;  // samples: of more the names are not collected, 60 bytes each
constexpr std::size_t kWordsMost = 16;         // of a line that are looked at
constexpr std::size_t kFoldersMost = 16;       // before a path that the data set has
constexpr std::uint64_t kLinesMissed = 10;     // one in so many may name no sample
constexpr SampleIndex kSeveral = UINT32_MAX;   // samples have this name

enum class Kind : std::uint8_t { kPath, kFileName, kStem };

[[nodiscard]] bool ends_word(char c) {
  return std::string_view(" \t\r,;:|\"'()[]{}").find(c) != std::string_view::npos;
}

// nullopt: the line has fewer words.
[[nodiscard]] std::optional<std::string_view> word_of(std::string_view line, std::size_t number) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (;; --number) {
    const char* const begin = std::find_if_not(at, end, ends_word);
    at = std::find_if(begin, end, ends_word);
    if (begin == end) return std::nullopt;
    if (number == 0) return std::string_view(begin, static_cast<std::size_t>(at - begin));
  }
}

// Takes one line off the text; empty ones are none.
[[nodiscard]] std::optional<std::string_view> next_line(std::string_view& text) {
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (word_of(line, 0)) return line;
  }
  return std::nullopt;
}

[[nodiscard]] std::string_view stem_of(std::string_view name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

// Finds the samples of a range by what a list calls them.
class NamedSamples {
 public:
  NamedSamples(const Catalog& catalog, EntryId folder, const SampleRange& range)
      : catalog_(catalog), folder_(folder), range_(range) {}

  // nullopt: none has this name, or several.
  [[nodiscard]] std::optional<SampleIndex> find(std::string_view word, Kind kind) {
    if (kind == Kind::kPath) return by_path(word);
    Names& names = kind == Kind::kFileName ? file_names_ : stems_;
    if (names.empty() && range_.count <= kNamesMost) collect(names, kind);
    const auto found = names.find(word);
    return found == names.end() || found->second == kSeveral ? std::nullopt : std::optional(found->second);
  }

 private:
  using Names = std::unordered_map<std::string_view, SampleIndex>;

  [[nodiscard]] std::optional<SampleIndex> by_path(std::string_view path) const {
    if (path.find('/') == std::string_view::npos && path.find('.') == std::string_view::npos) return std::nullopt;
    for (std::size_t folders = 0; folders < kFoldersMost; ++folders) {
      if (const auto sample = sample_at(catalog_.find(path))) return sample;
      if (const auto sample = folders == 0 ? in_own_folder(path) : std::nullopt) return sample;
      const std::size_t slash = path.find('/');
      if (slash == std::string_view::npos) return std::nullopt;
      path.remove_prefix(slash + 1);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<SampleIndex> in_own_folder(std::string_view path) const {
    if (folder_ == kRootEntry) return std::nullopt;
    return sample_at(catalog_.find(catalog_.path(folder_) + "/" + std::string(path)));
  }

  [[nodiscard]] std::optional<SampleIndex> sample_at(std::optional<EntryId> entry) const {
    const auto sample = entry ? catalog_.sample_of(*entry) : std::nullopt;
    return sample && range_.contains(*sample) ? sample : std::nullopt;
  }

  void collect(Names& names, Kind kind) const {
    names.reserve(range_.count);
    for (std::uint64_t i = 0; i < range_.count; ++i) {
      const auto sample = static_cast<SampleIndex>(range_.first + i);
      const std::string_view name = catalog_.name(catalog_.sample_entry(sample));
      const auto [at, is_new] = names.try_emplace(kind == Kind::kStem ? stem_of(name) : name, sample);
      if (!is_new) at->second = kSeveral;
    }
  }

  const Catalog& catalog_;
  const EntryId folder_;
  const SampleRange range_;
  Names file_names_;  // empty: not asked for yet
  Names stems_;
};

struct Column {
  std::size_t word = 0;
  Kind kind = Kind::kPath;
};

// The one that names most samples in the first lines; nullopt: there are too few, or it names less than half of these.
[[nodiscard]] std::optional<Column> find_column(std::string_view text, NamedSamples& samples) {
  std::vector<std::string_view> lines;
  while (lines.size() < kFirstLines) {
    const auto line = next_line(text);
    if (!line) break;
    lines.push_back(*line);
  }
  if (lines.size() < kSamplesLeast) return std::nullopt;
  std::optional<Column> best;
  std::size_t most = lines.size() / 2;
  for (const Kind kind : {Kind::kPath, Kind::kFileName, Kind::kStem}) {
    for (std::size_t word = 0; word < kWordsMost; ++word) {
      const auto named = static_cast<std::size_t>(std::ranges::count_if(lines, [&](std::string_view line) {
        const auto name = word_of(line, word);
        return name && samples.find(*name, kind);
      }));
      if (named > most) {
        most = named;
        best = Column{.word = word, .kind = kind};
      }
    }
    if (best) return best;
  }
  return best;
}

[[nodiscard]] bool is_listing(const std::vector<SampleIndex>& samples, const SampleRange& range) {
  return samples.size() == range.count && std::ranges::is_sorted(samples);
}

}  // namespace

std::vector<SampleIndex> samples_named_in(std::string_view text, const Catalog& catalog, EntryId folder,
                                          const SampleRange& range) {
  NamedSamples samples(catalog, folder, range);
  const std::optional<Column> column = find_column(text, samples);
  if (!column) return {};
  std::vector<SampleIndex> listed;
  std::vector<bool> has(range.count);
  std::uint64_t lines = 0;
  std::uint64_t missed = 0;
  while (const auto line = next_line(text)) {
    ++lines;
    const auto word = word_of(*line, column->word);
    const auto sample = word ? samples.find(*word, column->kind) : std::nullopt;
    missed += sample ? 0 : 1;
    if (!sample || has[*sample - range.first]) continue;  // a list of boxes has a line for each
    has[*sample - range.first] = true;
    listed.push_back(*sample);
  }
  const bool is_list = listed.size() >= kSamplesLeast && missed * kLinesMissed <= lines;
  return is_list && !is_listing(listed, range) ? listed : std::vector<SampleIndex>();
}

}  // namespace headrace::cache
