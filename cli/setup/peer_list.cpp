// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/peer_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using Names = std::vector<std::string>;

constexpr std::string_view kFile = "file:";
constexpr std::string_view kDns = "dns:";
constexpr std::string_view kSpace = " \t\r";

tl::unexpected<io::Error> malformed(std::string_view list, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("host list '{}': {}", list, why));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// At the commas that stand in no brackets.
std::vector<std::string_view> split_hosts(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') inside = true;
    if (i < list.size() && list[i] == ']') inside = false;
    if (i < list.size() && (list[i] != ',' || inside)) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

// Digits only, so few that the number fits.
bool parse_number(std::string_view text, std::uint64_t& number) {
  constexpr std::size_t kDigitsMax = 9;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && text.size() <= kDigitsMax && code == std::errc() && end == text.data() + text.size();
}

// "01-03" or "7", with the zeros of its first number.
bool expand_range(std::string_view range, Names& out) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (!parse_number(low, first) || !parse_number(high, last) || last < first) return false;
  if (last - first >= kListedPeersMax) return false;
  for (std::uint64_t number = first; number <= last; ++number) {
    out.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return true;
}

// One host, which may have several brackets: "rack[1-2]n[1-4]".
io::Result<Names> expand_host(std::string_view host) {
  Names names = {""};
  std::string_view rest = host;
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    for (std::string& name : names) name += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return malformed(host, "a bracket is not closed");
    Names numbers;
    for (const std::string_view range : split_hosts(rest.substr(open + 1, close - open - 1))) {
      if (!expand_range(range, numbers) || numbers.size() > kListedPeersMax) return malformed(host, "not a range");
    }
    if (names.size() * numbers.size() > kListedPeersMax) return malformed(host, "too many hosts");
    Names longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return names;
}

io::Result<Names> from_file(const std::string& path) {
  constexpr std::streamsize kBytesMax = std::streamsize{1} << 20;  // 1024 a host: a name has 253 letters at most
  std::ifstream file(path);
  std::string content(kBytesMax + 1, '\0');
  file.read(content.data(), kBytesMax + 1);
  if (!file.is_open() || file.bad()) return make_error(ErrorCode::kNotFound, fmt::format("{}: cannot be read", path));
  if (file.gcount() > kBytesMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: is longer than a list of hosts", path));
  }
  content.resize(static_cast<std::size_t>(file.gcount()));
  std::istringstream lines(std::move(content));
  Names names;
  for (std::string line; std::getline(lines, line);) {
    const std::string_view name = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (!name.empty()) names.emplace_back(name);
    if (names.size() > kListedPeersMax) break;
  }
  return names;
}

// The port is no part of what is looked up.
io::Result<Names> from_dns(const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::string host = word.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : word.substr(colon);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); code != 0) {
    return make_error(ErrorCode::kNotFound, fmt::format("dns:{}: {}", word, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  Names names;
  for (const addrinfo* it = found; it != nullptr && names.size() <= kListedPeersMax; it = it->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(it->ai_addr, it->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    names.push_back((it->ai_family == AF_INET6 ? fmt::format("[{}]", text) : std::string(text)) + port);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

io::Result<Names> from_slurm() {
  const char* nodes = std::getenv("SLURM_JOB_NODELIST");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  if (nodes != nullptr && *nodes != '\0') return expand_host_list(nodes);
  return make_error(ErrorCode::kInvalidArgument, "slurm: SLURM_JOB_NODELIST is not set; this is no job of Slurm");
}

}  // namespace

io::Result<Names> expand_host_list(std::string_view list) {
  Names all;
  for (const std::string_view host : split_hosts(list)) {
    if (host.empty()) return malformed(list, "a host has no name");
    HEADRACE_TRY(names, expand_host(host));
    all.insert(all.end(), names.begin(), names.end());
    if (all.size() > kListedPeersMax) return malformed(list, "too many hosts");
  }
  return all;
}

std::filesystem::path peer_file_of(const Names& words) {
  const bool is_file = words.size() == 1 && words.front().starts_with(kFile);
  return is_file ? std::filesystem::absolute(words.front().substr(kFile.size())) : std::filesystem::path();
}

Names absolute_peers(const Names& words) {
  const std::filesystem::path file = peer_file_of(words);
  return file.empty() ? words : Names{std::string(kFile) + file.string()};
}

bool is_looked_up(const Names& words) {
  return words.size() == 1 && (words.front().starts_with(kFile) || words.front().starts_with(kDns));
}

io::Result<Names> list_peers(const Names& words) {
  if (words.size() != 1) return words;
  const std::string& word = words.front();
  if (word.starts_with(kFile)) return from_file(word.substr(kFile.size()));
  if (word.starts_with(kDns)) return from_dns(word.substr(kDns.size()));
  if (word == "slurm") return from_slurm();
  return words;
}

}  // namespace headrace::cli
