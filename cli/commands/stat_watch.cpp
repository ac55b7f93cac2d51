// SPDX-License-Identifier: Apache-2.0
// headrace stat --watch: on a terminal it draws over what it has drawn, elsewhere it writes one line per look.
#include <chrono>
#include <clocale>
#include <cstdio>
#include <string_view>

#include <fmt/core.h>
#include <langinfo.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "headrace/cli/commands/stat.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/watch.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

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

io::Status watch_on_terminal(const std::filesystem::path& mount_point, WatchHistory& history, StopSignal& stop) {
  const Screen screen;
  do {
    Screen::draw(draw_watch(history, Screen::view()));
    if (stop.wait_for(kInterval)) return {};
    HEADRACE_TRY(sample, look_at_mount(mount_point));
    history.add(std::move(sample));
  } while (true);
}

// Ends when the reader of the pipe has gone.
io::Status watch_into_pipe(const std::filesystem::path& mount_point, WatchHistory& history, StopSignal& stop) {
  while (!stop.wait_for(kInterval)) {
    HEADRACE_TRY(sample, look_at_mount(mount_point));
    history.add(std::move(sample));
    fmt::print("{}\n", format_watch_line(history));
    if (std::fflush(stdout) != 0) return {};
  }
  return {};
}

}  // namespace

io::Result<WatchSample> look_at_mount(const std::filesystem::path& mount_point) {
  return call_daemon(mount_point, "stat", json::object()).map([](const json& stat) { return sample_from(stat); });
}

io::Status run_watch(const std::filesystem::path& mount_point) {
  StopSignal stop;
  WatchHistory history;
  HEADRACE_TRY(first, look_at_mount(mount_point));
  history.add(std::move(first));
  return ::isatty(STDOUT_FILENO) != 0 ? watch_on_terminal(mount_point, history, stop)
                                      : watch_into_pipe(mount_point, history, stop);
}

}  // namespace headrace::cli
