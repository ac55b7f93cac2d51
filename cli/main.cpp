// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "headrace/cache/hidden_environment.h"
#include "headrace/cli/app.h"

namespace {

// Opens what whoever started the program has closed of standard input, output and error. A file or a socket that took
// one of these numbers would be read as input, or written into as output. False: /dev/null cannot be opened.
bool complete_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);  // the lowest number that is free
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!complete_standard_streams()) return 1;  // there is nowhere to say why
  headrace::cache::hide_secrets_of_environment();
  return headrace::cli::run_app(argc, argv);
}
