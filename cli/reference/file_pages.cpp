// SPDX-License-Identifier: Apache-2.0
// The manual pages of what the options of mount are written into: headrace.toml(5) and mount.headrace(8).
#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "headrace/cli/reference/reference.h"
#include "headrace/cli/reference/roff.h"

namespace headrace::cli {
namespace {

const CommandReference& mount_of(const CommandReference& program) {
  const auto is_mount = [](const CommandReference& command) { return command.name == "mount"; };
  return *std::find_if(program.commands.begin(), program.commands.end(), is_mount);
}

// Whether it is an option that stands in a file: those for the command line alone are not.
bool is_setting(const OptionReference& option, bool in_fstab) {
  const std::string name = option.names.empty() ? "" : option.names.front();
  if (name == "--help" || name == "-h") return false;
  return in_fstab ? !option.names.empty() && name != "--foreground" : name != "--config";
}

std::string setting_name(const OptionReference& option) {
  if (!option.names.empty()) return option.names.front().substr(2);
  std::string name = option.argument;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return name;
}

// What a TOML value of the option looks like.
std::string_view value_in_toml(const OptionReference& option) {
  if (option.argument.empty()) return "true";
  const bool is_list = option.argument == "PATH:SIZE" || option.argument == "HOST[:PORT],...";
  return is_list ? "[\"...\"]" : "\"...\"";
}

std::string settings(const CommandReference& mount, bool in_fstab) {
  std::string text;
  for (const OptionReference& option : mount.options) {
    if (!is_setting(option, in_fstab)) continue;
    const std::string value = in_fstab ? option.argument : std::string(value_in_toml(option));
    const std::string_view between = !in_fstab ? " = " : value.empty() ? "" : "=";
    const std::string head = setting_name(option).append(between).append(value);
    text += roff_entry(head, option, {.environment = false});
  }
  return text;
}

}  // namespace

std::string config_page(const CommandReference& program, const std::string& version) {
  return fmt::format(R"(.TH HEADRACE.TOML 5 "" "headrace {}" "File Formats"
.SH NAME
headrace.toml \- options of headrace mount in a file
.SH SYNOPSIS
.B headrace mount \-\-config
.I FILE
.PP
.I /etc/headrace/NAME.toml
is what the systemd unit headrace@NAME reads.
.SH DESCRIPTION
The file is TOML: the options of
.B headrace mount
without their dashes, each with its value; SOURCE and MOUNTPOINT are
.BR source " and " mountpoint .
An option that can be given more than once has a list. There are no sections.
A text stands in quotes; 'single' ones take it as it is. A size may stand without (ram = 16G).
What the command line or the environment sets counts more than the file.
.PP
.B headrace config check
.I FILE
says whether headrace mount would take it.
.SH OPTIONS
{}.SH EXAMPLE
.nf
source = "/data/train"
mountpoint = "/mnt/train"
ram = "16G"
ssd = ["/nvme/headrace:200G,free=10%"]
order = "torch\-distributed:seed=0"
allow\-other = true
.fi
.SH SEE ALSO
.BR headrace (1),
.BR mount.headrace (8)
)",
                     version, settings(mount_of(program), false));
}

std::string mount_helper_page(const CommandReference& program, const std::string& version) {
  return fmt::format(R"(.TH MOUNT.HEADRACE 8 "" "headrace {}" "System Administration"
.SH NAME
mount.headrace \- mount a data set with mount(8)
.SH SYNOPSIS
.B mount \-t headrace
.I SOURCE MOUNTPOINT
.RB [ \-o
.IR OPTION [, OPTION ]...]
.PP
.I SOURCE MOUNTPOINT
.B headrace
.IR OPTION [, OPTION "]... 0 0"
.br
in
.BR fstab (5)
.SH DESCRIPTION
mount(8) calls this helper for the file system type headrace; it calls
.BR "headrace mount" .
It returns when the data set can be read.
.PP
Options are those of
.B headrace mount
without their dashes. Commas part options, so that a comma within an order, between peers or
before the free= of a tier is written as a semicolon:
.BR order=torch\-distributed:seed=0;replicas=8 .
Options that every file system has, such as ro, noauto, nofail, _netdev and x\-*, are taken and left to mount(8).
.B remount
changes
.BR ram ,
and nothing else, as
.B headrace set
does.
.PP
mount(8) looks for helpers in /sbin alone. After an installation to /usr/local:
.B ln \-s /usr/local/sbin/mount.headrace /sbin/
.SH OPTIONS
{}.SH EXAMPLE
.nf
/data/train  /mnt/train  headrace  ram=16G,ssd=/nvme/headrace:200G,allow_other  0 0
.fi
.SH SEE ALSO
.BR headrace (1),
.BR headrace.toml (5),
.BR fstab (5),
.BR mount (8)
)",
                     version, settings(mount_of(program), true));
}

}  // namespace headrace::cli
