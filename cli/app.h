// SPDX-License-Identifier: Apache-2.0
// The command line as a whole: from argv to an exit status.
#pragma once

namespace headrace::cli {

inline constexpr int kExitGood = 0;
inline constexpr int kExitFailed = 1;    // one line on stderr says what and why
inline constexpr int kExitUsage = 2;     // the command line, a config file or a size in them makes no sense
inline constexpr int kExitSignal = 128;  // plus the number of the signal that stopped it, as shells count

// Parses, runs the command, prints its error if there is one. Called once, from main().
[[nodiscard]] int run_app(int argc, char** argv);

}  // namespace headrace::cli
