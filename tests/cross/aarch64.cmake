# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 with Debian's cross compiler, and runs what was built in qemu's user mode. tests/cross/run makes the
# folder HEADRACE_SYSROOT, which holds Debian's :arm64 libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEADRACE_SYSROOT)
set(CMAKE_SYSROOT ${HEADRACE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HEADRACE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${HEADRACE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${HEADRACE_SYSROOT}/usr/share/pkgconfig)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${HEADRACE_SYSROOT})
