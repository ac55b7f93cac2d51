// SPDX-License-Identifier: Apache-2.0
// Keeps the secrets of a bucket that stand in the environment from being seen.
//
//   hide_secrets_of_environment();   // first of all in main()
//
// Thread-safety: none; before there are threads.
#pragma once

namespace headrace::cache {

// Moves them to where neither core files nor `ps e` show them; the program and those that it starts find them as
// before. Called once, by main().
void hide_secrets_of_environment();

}  // namespace headrace::cache
