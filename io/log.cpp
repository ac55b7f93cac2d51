// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/log.h"

#include <atomic>
#include <memory>
#include <string>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "headrace/io/internal/log_limit.h"
#include "headrace/io/printable.h"

namespace headrace::io {
namespace {

constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%e %l headrace[%P]: %v";
constexpr const char* kJournalPattern = "%v";  // time, name and process are fields of an entry

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink) {
  auto made = std::make_shared<spdlog::logger>("headrace", std::move(sink));
  made->set_pattern(kPattern);
  made->set_level(spdlog::level::debug);  // levels are filtered by log_enabled()
  made->flush_on(spdlog::level::info);
  return made;
}

// set_log_file() replaces it as a whole, before the threads that log are started.
std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return instance;
}

std::atomic<bool>& to_journal() {
  static std::atomic<bool> journal{false};
  return journal;
}

std::atomic<LogLevel>& threshold() {
  static std::atomic<LogLevel> level{LogLevel::kWarning};
  return level;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// The priorities of syslog(3), as sd-daemon(3) writes them before a line.
std::string_view journal_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "<7>";
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kWarning:
      return "<4>";
    case LogLevel::kError:
      break;
  }
  return "<3>";
}

void tell_left_out(LogLimit& limit, LogLimit::Clock::time_point now) {
  for (const LogLimit::LeftOut& left_out : limit.take_left_out(now)) {
    log_line(LogLevel::kWarning, fmt::format("{} more lines like \"{}\" were left out", left_out.lines, left_out.kind));
  }
}

// Tells what was left out, and not told yet, when the program ends.
class LimitOfProcess {
 public:
  LimitOfProcess() { static_cast<void>(logger()); }  // so that it outlives this
  ~LimitOfProcess() { tell_left_out(limit, LogLimit::Clock::time_point::max()); }
  LimitOfProcess(const LimitOfProcess&) = delete;
  LimitOfProcess& operator=(const LimitOfProcess&) = delete;
  LogLimit limit{{}};
};

LogLimit& limit_of_process() {
  static LimitOfProcess instance;
  return instance.limit;
}

}  // namespace

bool log_admits(LogLevel level, std::string_view format) {
  if (level == LogLevel::kDebug) return true;
  const auto now = LogLimit::Clock::now();
  tell_left_out(limit_of_process(), now);
  return limit_of_process().admit(format, now);
}

void set_log_level(LogLevel level) {
  threshold().store(level);
}

bool set_log_file(const char* path) {
  try {
    logger() = make_logger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    return true;
  } catch (const spdlog::spdlog_ex&) {
    return false;
  }
}

void set_log_to_journal() {
  logger()->set_pattern(kJournalPattern);
  to_journal() = true;
}

bool log_enabled(LogLevel level) {
  return level >= threshold().load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view line) {
  const std::string safe = printable(line);
  if (!to_journal()) return logger()->log(to_spdlog(level), safe);
  logger()->log(to_spdlog(level), std::string(journal_prefix(level)).append(safe));
}

}  // namespace headrace::io
