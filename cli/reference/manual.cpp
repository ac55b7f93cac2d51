// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <fmt/core.h>

#include "headrace/cli/reference/reference.h"
#include "headrace/cli/reference/roff.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kDescription = R"(.SH DESCRIPTION
headrace brings training samples from slow storage to the loader before it asks for them.
It knows the shuffled order in which a training job will read its files, fetches them ahead of time,
keeps what is worth keeping in memory and on fast disks, and shows the data set through a read\-only mount.
The source is never written to.
.PP
Sizes take K, M, G and T (powers of 1024); memory also takes a percentage of what the machine or container has.
)";

constexpr std::string_view kClosing = R"(.SH EXIT STATUS
.TP
.B 0
Good.
.TP
.B 1
Failed; one line on the standard error says what and why.
.TP
.B 2
The command line or a config file makes no sense.
.TP
.B 128 + N
Stopped by signal N: 130 after Ctrl\-C, 143 after SIGTERM. What a warm has fetched is kept.
A signal is the ordinary end of
.BR "stat \-\-watch" " and " "mount \-\-foreground" ,
so they exit with 0.
.SH FILES
.TP
.I /run/headrace, $XDG_RUNTIME_DIR/headrace
Control sockets of running mounts, for their owner alone. $HEADRACE_RUNTIME_DIR takes their place.
.TP
.I /var/cache/headrace, $XDG_CACHE_HOME/headrace
Saved catalogs of data sets. $HEADRACE_CACHE_DIR takes their place.
.TP
.I /var/log/headrace
Log of each mount where there is no journal. $HEADRACE_LOG_DIR takes its place.
.TP
.I /etc/headrace/NAME.toml
Config file of the systemd unit headrace@NAME.
.SH MOUNTING AT BOOT
.nf
/data/train  /mnt/train  headrace  ram=16G,ssd=/nvme/headrace:200G  0 0
.fi
.PP
in fstab(5), or a config file and
.BR "systemctl enable headrace@NAME" .
.SH SEE ALSO
.BR headrace.toml (5),
.BR mount.headrace (8),
.BR mount (8),
.BR fusermount3 (1),
.BR io_uring (7)
)";

// What it does, and what may be written there.
std::string words_of(const OptionReference& option, EntryOptions options) {
  std::string text = escape_roff(option.description);
  for (std::size_t i = 0; i < option.choices.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + escape_roff(option.choices[i]);
  }
  if (!option.default_value.empty()) text += "; default: " + escape_roff(option.default_value);
  if (options.environment && !option.environment.empty()) text += fmt::format("; environment: {}", option.environment);
  return text;
}

std::string format_option(const OptionReference& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "\\fB" : ", \\fB") + escape_roff(name) + "\\fR";
  if (!option.argument.empty()) head += (head.empty() ? "\\fI" : " \\fI") + escape_roff(option.argument) + "\\fR";
  return fmt::format(".TP\n{}\n{}.\n", head, words_of(option, {}));
}

void append_command(const CommandReference& command, std::string& page) {
  if (!command.name.empty()) {
    std::string arguments;
    for (const OptionReference& option : command.options) {
      if (option.names.empty()) arguments += " " + option.argument;
    }
    page += fmt::format(".SS \"headrace {}{}\"\n{}.\n", escape_roff(command.name), escape_roff(arguments),
                        escape_roff(command.description));
    for (const OptionReference& option : command.options) page += format_option(option);
    if (!command.notes.empty()) page += fmt::format(".PP\n.nf\n{}\n.fi\n", escape_roff(command.notes));
  }
  for (const CommandReference& child : command.commands) append_command(child, page);
}

}  // namespace

std::string escape_roff(std::string_view text) {
  std::string escaped;
  bool line_start = true;
  for (const char letter : text) {
    if (line_start && (letter == '.' || letter == '\'')) escaped += "\\&";
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else {
      escaped += letter;
    }
    line_start = letter == '\n';
  }
  return escaped;
}

std::string roff_entry(std::string_view head, const OptionReference& option, EntryOptions options) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}.\n", escape_roff(head), words_of(option, options));
}

std::string manual_page(const CommandReference& program, const std::string& version) {
  std::string page = fmt::format(
      ".TH HEADRACE 1 \"\" \"headrace {}\" \"User Commands\"\n"
      ".SH NAME\nheadrace \\- bring training samples to the loader before it asks for them\n"
      ".SH SYNOPSIS\n.B headrace\n.I command\n.RI [ options ]\n.I arguments\n",
      version);
  page += kDescription;
  page += ".SH COMMANDS\n";
  append_command(program, page);
  page += kClosing;
  return page;
}

}  // namespace headrace::cli
