// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/app.h"

int main(int argc, char** argv) {
  return headrace::cli::run_app(argc, argv);
}
