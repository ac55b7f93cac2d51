// SPDX-License-Identifier: Apache-2.0
// Structs of options whose size is that of no header are refused by name, and nothing behind them is read: each lies at
// the end of a page that no other follows. struct_sizes FOLDER; says what is wrong, and ends with 1.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <headrace/headrace.h>

static char* page_end;
static size_t page_bytes;
static int failures = 0;

static void make_page(void) {
  page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  char* pages = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page_bytes, page_bytes, PROT_NONE) != 0) _exit(2);
  page_end = pages + page_bytes;
}

// `bytes` of the struct and zeros behind it, with that size in its first field, at the end of the page.
static void* put(const void* options, size_t bytes, size_t place, uint64_t size) {
  memset(page_end - page_bytes, 0, page_bytes);
  memcpy(page_end - place, options, bytes);
  memcpy(page_end - place, &size, sizeof(size));
  return page_end - place;
}

static void expect(int32_t status, int32_t wanted, const char* name, uint64_t size) {
  if (status == wanted && (status == HR_OK || strstr(hr_error_text(), name) != NULL)) return;
  fprintf(stderr, "%s of size %llu: status %d, not %d: %s\n", name, (unsigned long long)size, status, wanted,
          hr_error_text());
  ++failures;
}

// An opener of one of the structs; closes what it opened.
typedef int32_t (*open_function)(const void* options);
static hr_dataset* dataset = NULL;

static int32_t open_dataset(const void* options) {
  hr_dataset* opened = NULL;
  const int32_t status = hr_dataset_open(options, &opened);
  hr_dataset_close(opened);
  return status;
}

static int32_t open_loader(const void* options) {
  hr_loader* opened = NULL;
  const int32_t status = hr_loader_open(dataset, options, &opened);
  hr_loader_close(opened);
  return status;
}

// `least`: its bytes in the first header.
static void check(open_function open, const void* options, size_t bytes, size_t least, const char* name) {
  const uint64_t wrong[] = {
      0, 1, 8, least - 8, bytes + 4, page_bytes + 8, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
  if (hr_struct_bytes(name) != bytes) ++failures;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    expect(open(put(options, bytes, bytes, wrong[i])), HR_INVALID_ARGUMENT, name, wrong[i]);
  }
  expect(open(NULL), HR_INVALID_ARGUMENT, name, 0);
  expect(open(put(options, bytes, bytes, bytes)), HR_OK, name, bytes);
  expect(open(put(options, least, least, least)), HR_OK, name, least);                 // an older header's
  expect(open(put(options, bytes, bytes + 64, bytes + 64)), HR_OK, name, bytes + 64);  // a newer header's, none is set
  put(options, bytes, bytes + 64, bytes + 64);
  page_end[-1] = 1;
  expect(open(page_end - bytes - 64), HR_UNSUPPORTED, name, bytes + 64);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  make_page();
  const hr_dataset_options where = {.struct_bytes = sizeof(where), .path = argv[1]};
  const hr_loader_options how = {.struct_bytes = sizeof(how),
                                 .order = "sequential",
                                 .epochs = 1,
                                 .batch_size = 4,
                                 .geometry = HR_RESIZE,
                                 .width = 8,
                                 .height = 8,
                                 .threads = 1};
  check(open_dataset, &where, sizeof(where), offsetof(hr_dataset_options, keep_free_bytes), "hr_dataset_options");
  if (hr_dataset_open(&where, &dataset) != HR_OK) return 2;
  check(open_loader, &how, sizeof(how), sizeof(how), "hr_loader_options");
  hr_dataset_close(dataset);
  return failures == 0 ? 0 : 1;
}
