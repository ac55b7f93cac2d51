// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/hidden_environment.h"
#include "headrace/cli/app.h"

int main(int argc, char** argv) {
  headrace::cache::hide_secrets_of_environment();
  return headrace::cli::run_app(argc, argv);
}
