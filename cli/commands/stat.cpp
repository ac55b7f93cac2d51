// SPDX-License-Identifier: Apache-2.0
// headrace stat: what a mount holds, has served and is doing.
#include <chrono>
#include <clocale>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <langinfo.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/daemon/stats_json.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/order_words.h"
#include "headrace/cli/show/peer_words.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/show/watch.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct StatArguments {
  std::filesystem::path mount_point;
  bool json = false;
  bool watch = false;  // show the figures again each second until a signal comes
};

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.0f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

constexpr std::size_t kFieldColumns = 12;

void print_field(std::string_view name, std::string_view text) {
  print_line(stdout, fmt::format("{:<{}}{}", name, kFieldColumns, text), kFieldColumns);
}

void print_order(const json& stat) {
  const json& mount = stat["mount"];
  const std::string order = text_of(mount, "order");
  if (order.empty() && number_of(mount, "held_samples") == number_of(stat["data_set"], "samples")) {
    return print_field("order", "not needed: all samples are held");
  }
  if (order.empty()) {
    const bool learns = flag_of(mount, "learns_order");
    print_field("order", fmt::format("not known{}; tell it with headrace order set",
                                     learns ? " yet; headrace looks for it in the opens" : ""));
    if (const std::string search = describe_search(mount); !search.empty()) print_field("", search);
    return;
  }
  const std::string set = text_of(mount, "order_set");
  print_field("order", fmt::format("{}, {}epoch {}, position {}, {} samples ahead", order,
                                   set.empty() ? "" : fmt::format("reading {}: ", set), number_of(mount, "epoch"),
                                   number_of(mount, "position"), number_of(mount, "ahead_samples")));
  const std::string found_by = text_of(mount, "order_found_by");
  if (found_by.empty()) return;
  print_field("", fmt::format("learned: {}; chance of a mistake 1 in 2^{:.0f}", found_by,
                              real_of(mount, "order_confidence_bits")));
}

void print_share(const json& share) {
  if (share.empty()) return;
  const std::string why_not = text_of(share, "why_not_started");
  print_field("shares",
              fmt::format("{}{}, {}", format_size(number_of(share, "bytes")),
                          flag_of(share, "tls") ? " by TLS" : " in the clear",
                          why_not.empty() ? text_of(share, "command") : "no memcached of its own: " + why_not));
}

void print_head(const json& stat) {
  const json& data = stat["data_set"];
  print_line(stdout, fmt::format("{} on {}, up {}", text_of(stat, "source"), text_of(stat, "mount_point"),
                                 format_duration(real_of(stat, "uptime_seconds"))));
  print_field("data set", fmt::format("{} samples in {} classes, {}", number_of(data, "samples"),
                                      number_of(data, "classes"), format_size(number_of(data, "bytes"))));
  if (const std::uint64_t unreadable = number_of(data, "unreadable"); unreadable > 0) {
    print_field("", fmt::format("{} folders or files could not be read and are left out", unreadable));
  }
  print_order(stat);
  print_share(member_of(stat, "share"));
}

void print_opens(const json& mount) {
  const std::uint64_t opens = number_of(mount, "opens");
  if (opens == 0) return print_field("opens", "none yet");
  print_field("opens", fmt::format("{}: {} were in memory, {} came late, {} were not expected by the order", opens,
                                   percent(number_of(mount, "hits"), opens), percent(number_of(mount, "late"), opens),
                                   number_of(mount, "strays")));
}

void print_ram(const json& mount) {
  const std::string asked = format_size(number_of(mount, "ram_bytes"));
  const std::string staging = format_size(number_of(mount, "staging_bytes"));
  if (number_of(mount, "ram_bytes") == 0) {
    return print_field("ram", fmt::format("none asked for; what is on its way may take {}", staging));
  }
  const std::string shortage = text_of(mount, "shortage");
  if (shortage.empty()) return print_field("ram", fmt::format("{}, {} of it for what is on its way", asked, staging));
  print_field("ram", fmt::format("{} of {} may be used now: {}", format_size(number_of(mount, "budget_bytes")), asked,
                                 shortage));
}

void print_pins(const json& mount) {
  const std::uint64_t bytes = number_of(mount, "pinned_bytes");
  const std::uint64_t samples = number_of(mount, "pinned_samples");
  if (samples == 0) return;
  const std::uint64_t pinnable = number_of(mount, "pinnable_bytes");
  const std::string kept = fmt::format("{} of them are held", number_of(mount, "pinned_held_samples"));
  const std::string not_kept = fmt::format("not kept now, since {} may be pinned", format_size(pinnable));
  print_field("pinned",
              fmt::format("{} samples, {}; {}", samples, format_size(bytes), bytes <= pinnable ? kept : not_kept));
}

void print_mount(const json& mount) {
  print_ram(mount);
  const std::uint64_t copies_budget = number_of(mount, "copies_budget_bytes");
  print_field("page cache",
              fmt::format("{} of {} held, {} samples", format_size(number_of(mount, "held_bytes")),
                          format_size(number_of(mount, "page_cache_budget_bytes")), number_of(mount, "held_samples")));
  if (copies_budget > 0) {
    print_field("memory", fmt::format("{} of {} held as copies, because the kernel drops pushed pages; {} samples",
                                      format_size(number_of(mount, "copies_bytes")), format_size(copies_budget),
                                      number_of(mount, "copied_samples")));
  }
  print_pins(mount);
  print_opens(mount);
  print_field("requests", fmt::format("{} reached the daemon, {} read; readers waited {:.1f} s for them",
                                      number_of(mount, "request_total"), format_size(number_of(mount, "read_bytes")),
                                      real_of(mount, "read_wait_seconds")));
}

Tone tone_of_state(std::string_view state) {
  if (state.starts_with("short")) return Tone::kWarning;
  return state.empty() || state == "ok" || state == "full" ? Tone::kPlain : Tone::kBad;
}

void print_tiers(const json& tiers) {
  fmt::print("\n{:<7}{:>10} {:>10} {:>8} {:>8} {:>10} {:>7}  {}\n", "tier", "used", "budget", "samples", "hits",
             "served", "errors", "state");
  for (const json& tier : tiers) {
    // An older daemon does not tell what it was asked for.
    const bool has_budget = number_of(tier, "asked_bytes") + number_of(tier, "budget_bytes") > 0;
    fmt::print(
        "{:<7}{:>10} {:>10} {:>8} {:>8} {:>10} {:>7}  {}\n", text_of(tier, "kind"),
        format_size(number_of(tier, "used_bytes")), has_budget ? format_size(number_of(tier, "budget_bytes")) : "-",
        format_count(number_of(tier, "samples")), format_count(number_of(tier, "hits")),
        format_size(number_of(tier, "hit_bytes")), format_count(number_of(tier, "errors") + number_of(tier, "corrupt")),
        toned(stdout, tone_of_state(text_of(tier, "state")), text_of(tier, "state")));
  }
}

// Why a disk tier may hold less now than it was given.
std::string shortage_of(const json& tier) {
  const std::uint64_t keep_free = number_of(tier, "keep_free_bytes");
  if (number_of(tier, "asked_bytes") <= number_of(tier, "budget_bytes")) return "";
  return fmt::format("; {} of {} may be used now, since {} of the file system are to stay free",
                     format_size(number_of(tier, "budget_bytes")), format_size(number_of(tier, "asked_bytes")),
                     format_size(keep_free));
}

// How the disk tiers choose what to hold, and how many reads of the source are left.
void print_placement(const json& stat) {
  const json& store = member_of(stat, "store");
  for (const json& tier : store["tiers"]) {
    if (!is_disk_tier(tier)) continue;
    print_line(stdout, fmt::format("{:<7}{}{}", text_of(tier, "kind"), text_of(tier, "placement"), shortage_of(tier)),
               7);
  }
  const json& reads = member_of(store, "epoch_reads");
  if (reads.empty()) return;
  fmt::print("epoch {}: {} reads of the source so far; a whole epoch needs {} at least\n", number_of(reads, "epoch"),
             format_count(number_of(reads, "source_reads")), format_count(number_of(reads, "minimum_source_reads")));
  if (const std::string shares = describe_shares(stat); !shares.empty()) print_line(stdout, shares);
}

// How the bucket answers, and what that costs.
void print_bucket(const json& stat) {
  const json& bucket = member_of(stat["store"], "bucket");
  if (bucket.empty()) return;
  print_field(
      "bucket",
      fmt::format("{} of {} requests in flight, {} reads wait for their turn; half end within {} ms, 99 % within "
                  "{} ms",
                  number_of(bucket, "in_flight"), number_of(bucket, "in_flight_limit"), number_of(bucket, "queued"),
                  number_of(bucket, "latency_us_p50") / 1000, number_of(bucket, "latency_us_p99") / 1000));
  print_field("",
              fmt::format("{} requests so far, {} of them listings; {} tried again, {} sent twice because they took "
                          "long, {} asked to slow down, {} failed; keys from: {}",
                          format_count(number_of(bucket, "requests")), format_count(number_of(bucket, "lists")),
                          format_count(number_of(bucket, "retries")), format_count(number_of(bucket, "hedges")),
                          format_count(number_of(bucket, "throttles")), format_count(number_of(bucket, "errors")),
                          text_of(bucket, "credentials")));
  print_field("", fmt::format("${:.2f} for requests so far; {}", real_of(bucket, "dollars"),
                              describe_epoch_price(number_of(stat["data_set"], "chunks"))));
}

void print_note(const std::string& note) {
  print_line(stdout, "note: " + note, 6, Tone::kWarning);
}

// Prints fall-backs and failures; nothing when there are none.
void print_notes(const json& stat) {
  const json& engine = stat["store"]["engine"];
  if (const std::string reason = text_of(engine, "fallback_reason"); !reason.empty()) {
    print_note(fmt::format("engine {}: {}", text_of(engine, "name"), reason));
  }
  if (const json& tiers = stat["store"]["tiers"]; !tiers.empty()) {
    if (const std::string how = text_of(tiers.back(), "placement"); !how.empty()) print_note("source: " + how);
  }
  if (const std::uint64_t times = number_of(member_of(stat, "refresh"), "failures"); times > 0) {
    print_note(fmt::format("looking for changes of the source failed {} times, and is tried again by itself: {}", times,
                           text_of(stat["refresh"], "failure")));
  }
  for (const json& peer : member_of(stat["store"], "peers")) {
    if (const std::string other = describe_other_list(peer); !other.empty()) {
      print_note(fmt::format("peer {} {}, so that files are read from the source again", text_of(peer, "name"), other));
    }
  }
  if (const std::string failure = text_of(member_of(stat, "share"), "list_failure"); !failure.empty()) {
    print_note(fmt::format("the list of peers cannot be had, and stays as it is: {}", failure));
  }
  for (const json& fallback : stat["mount"]["fallbacks"]) print_note(fallback.get<std::string>());
  if (const std::uint64_t given_up = number_of(stat["mount"], "orders_given_up"); given_up > 0) {
    print_note(
        fmt::format("{} orders that were given or told were given up, since the loader read otherwise; the last: {}",
                    given_up, text_of(stat["mount"], "order_given_up")));
  }
  if (const std::string wrong = describe_wrong_order(stat["mount"]); !wrong.empty()) print_note(wrong);
  if (const std::string pause = describe_pause(stat["mount"]); !pause.empty()) print_note(pause);
  const std::uint64_t failures = number_of(stat["mount"], "read_failures") + number_of(stat["mount"], "push_failures");
  std::string reasons;
  for (const auto& [reason, count] : member_of(stat["mount"], "read_failure_reasons").items()) {
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count.dump(), reason);
  }
  if (failures > 0) {
    print_note(
        fmt::format("{} reads failed{}; the log says which", failures, reasons.empty() ? "" : " (" + reasons + ")"));
  }
}

// With --watch: on a terminal it draws over what it has drawn, elsewhere it writes one line per look.
constexpr std::chrono::milliseconds kInterval{1000};

// Shows the terminal's second screen without a cursor for as long as it lives.
class Screen {
 public:
  Screen() { write("\x1b[?1049h\x1b[?25l"); }
  ~Screen() { write("\x1b[?25h\x1b[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Asks for the size each time, so that the picture fits after a resize.
  static WatchView view() {
    // This command has one thread.
    std::setlocale(LC_CTYPE, "");                                                    // NOLINT(concurrency-mt-unsafe)
    WatchView view{.unicode = std::string_view(::nl_langinfo(CODESET)) == "UTF-8"};  // NOLINT(concurrency-mt-unsafe)
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
      view.columns = size.ws_col;
      view.rows = size.ws_row;
    }
    return view;
  }

  // Begins at the top left corner, clears each line to its end and everything below: nothing flickers or is left over.
  static void draw(const std::vector<std::string>& lines) {
    std::string picture = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) picture += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
    write(picture + "\x1b[J");
  }

 private:
  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
};

io::Status look(const std::filesystem::path& mount_point, WatchHistory& history) {
  HEADRACE_TRY(stat, query_daemon(mount_point, "stat"));
  history.add(sample_from(stat));
  return {};
}

io::Status watch_on_terminal(const std::filesystem::path& mount_point, WatchHistory& history, StopSignal& stop) {
  const Screen screen;
  do {
    Screen::draw(draw_watch(history, Screen::view()));
    if (stop.wait_for(kInterval)) return {};
    HEADRACE_TRY_DO(look(mount_point, history));
  } while (true);
}

// Ends when the reader of the pipe has gone.
io::Status watch_into_pipe(const std::filesystem::path& mount_point, WatchHistory& history, StopSignal& stop) {
  while (!stop.wait_for(kInterval)) {
    HEADRACE_TRY_DO(look(mount_point, history));
    fmt::print("{}\n", format_watch_line(history));
    if (std::fflush(stdout) != 0) return {};
  }
  return {};
}

io::Status watch(const std::filesystem::path& mount_point) {
  StopSignal stop;
  WatchHistory history;
  HEADRACE_TRY_DO(look(mount_point, history));
  return ::isatty(STDOUT_FILENO) != 0 ? watch_on_terminal(mount_point, history, stop)
                                      : watch_into_pipe(mount_point, history, stop);
}

io::Status run_stat(const StatArguments& arguments) {
  if (arguments.watch) return watch(arguments.mount_point);
  HEADRACE_TRY(stat, query_daemon(arguments.mount_point, "stat"));
  if (arguments.json) {
    print_json(stat);
    return {};
  }
  print_head(stat);
  print_mount(stat["mount"]);
  print_bucket(stat);
  print_tiers(stat["store"]["tiers"]);
  print_placement(stat);
  print_notes(stat);
  return {};
}

}  // namespace

void add_stat_command(Command& program) {
  std::shared_ptr<StatArguments> arguments;
  Command& command = add_command(program, {kMountCommands, "stat", "Show what a mount holds, has served and is doing"},
                                 run_stat, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add(json_flag(arguments->json));
  command.add({.name = "--watch",
               .letter = 'w',
               .target = &arguments->watch,
               .help = "Show it again every second until Ctrl-C",
               .excludes = {"--json"}});
  command.footer = "Example:\n  headrace stat /mnt/train --watch";
}

}  // namespace headrace::cli
