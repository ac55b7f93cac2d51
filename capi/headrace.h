// SPDX-License-Identifier: Apache-2.0
// headrace for any language: training batches from a data set, through plain C.
//
//   hr_dataset_options data = {.struct_bytes = sizeof(data), .path = "/data/train", .ram_bytes = 8ull << 30};
//   hr_dataset* dataset = NULL;
//   if (hr_dataset_open(&data, &dataset) != HR_OK) return complain(hr_error_text());
//   hr_loader_options options = {.struct_bytes = sizeof(options), .order = "sequential", .epochs = 1, ...};
//   if (hr_loader_open(dataset, &options, &loader) != HR_OK) return complain(hr_error_text());
//   while ((status = hr_loader_next(loader, 100, &batch)) != HR_END) ...
//
// Every function that can fail returns an hr_status; hr_error_text() then has one line that names the thing. No C++
// exception leaves the library.
//
// Versions: a struct of options begins with its own size as the caller knows it, so that fields can be added at the
// end. What no header has as its size is HR_INVALID_ARGUMENT, a field that is set and unknown HR_UNSUPPORTED. All zero
// is the default of every field that has one. hr_abi_version() changes when anything else does; a caller that does
// not compile this header compares hr_struct_bytes() with its own declarations.
//
// Ownership: a loader keeps its data set, and a batch its memory, whatever is closed first. Strings and arrays passed
// in are copied. Thread-safety: any thread, unless a function says otherwise. After fork() the child must leave all
// handles alone: calls end with HR_FORKED, and closing does nothing.
#ifndef HEADRACE_HEADRACE_H
#define HEADRACE_HEADRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_API __attribute__((visibility("default")))
#define HR_ABI_VERSION 1

typedef enum hr_status {
  HR_OK = 0,
  HR_END = 1,        // all epochs are done, or the loader was stopped
  HR_TIMED_OUT = 2,  // nothing is lost; ask again
  HR_INVALID_ARGUMENT = 3,
  HR_OUT_OF_RANGE = 4,  // an index that the data set does not have
  HR_NOT_FOUND = 5,
  HR_PERMISSION = 6,
  HR_NO_SPACE = 7,
  HR_NO_MEMORY = 8,
  HR_BAD_DATA = 9,  // a sample that is no image, is larger than the limits, or ends early
  HR_STALE = 10,    // a file is not what it was when the data set was opened
  HR_BUSY = 11,     // a tier that another process has open
  HR_UNSUPPORTED = 12,
  HR_FORKED = 13,  // the handle belongs to the parent process
  HR_IO = 14,      // what the operating system said
  HR_INTERNAL = 15
} hr_status;

typedef struct hr_dataset hr_dataset;
typedef struct hr_loader hr_loader;

// ---- the library ----

HR_API uint32_t hr_abi_version(void);
// "0.1.0"
HR_API const char* hr_version(void);
// sizeof of the struct of this name, as the library knows it. 0: there is none.
HR_API uint64_t hr_struct_bytes(const char* name);
// Why the last call of this thread failed; until its next one that fails.
HR_API const char* hr_error_text(void);
// Lines below the level are not written to stderr. 0: debug, 1: info, 2: warning, 3: error.
HR_API void hr_set_log_level(int32_t level);
// The memory that this machine or container has for this process.
HR_API uint64_t hr_memory_limit_bytes(void);

// ---- a data set ----

enum { HR_TIER_SSD = 1, HR_TIER_HDD = 2 };
// A quarter of hr_memory_limit_bytes(); of a mount of headrace, 0.
#define HR_RAM_DEFAULT UINT64_MAX

typedef struct hr_tier {
  int32_t kind;
  const char* path;  // a folder of its own, outside of the data set; made when missing
  uint64_t budget_bytes;
} hr_tier;

typedef struct hr_dataset_options {
  uint64_t struct_bytes;
  const char* path;          // the folder, or a mount of headrace (which has tiers of its own)
  const char* listing;       // which files are samples: "imagefolder" (NULL), "timm", "dali", "keras", "sorted"
  const char* sample_list;   // a file of relative paths, one a line, instead. NULL: none
  const char* catalog_file;  // where the listing is kept for the next time. NULL: nowhere
  const char* engine;        // "auto" (NULL), "uring", "pread"
  uint64_t ram_bytes;        // content that stays in memory. 0: no more than is on its way; or HR_RAM_DEFAULT
  const hr_tier* tiers;      // fastest first
  uint64_t tier_count;
  const uint64_t* keep_free_bytes;  // what is to stay free of each tier's file system, as many as tiers. NULL: nothing
  const char* records;              // the samples are the records of packs: "auto", "lmdb", see below. NULL: files
} hr_dataset_options;

// Records: a sample is what lies in a pack for it, framing included (`headrace mount --help` names the formats). All
// packs are of one format, stride=BYTES takes every file, and there are at most 10 000 files; sorted by path they are
// one sequence. Orders are over the records, also where each is several rows. No classes, no sample list;
// HR_CONTENT_BYTES alone. Where a pack has changed, hr_loader_next() ends with HR_STALE whatever `bad_samples` says.

// Errors: HR_NOT_FOUND (no such folder, no sample in it), HR_PERMISSION, HR_INVALID_ARGUMENT, HR_BUSY; with records
// HR_BAD_DATA (an index that cannot be right) and HR_UNSUPPORTED (a kind of pack that has no map), too.
HR_API int32_t hr_dataset_open(const hr_dataset_options* options, hr_dataset** dataset);
HR_API void hr_dataset_close(hr_dataset* dataset);
HR_API uint64_t hr_dataset_size(const hr_dataset* dataset);
HR_API uint64_t hr_dataset_class_count(const hr_dataset* dataset);
// 1: the path is a mount of headrace.
HR_API int32_t hr_dataset_is_mount(const hr_dataset* dataset);
// `labels`: room for hr_dataset_size() numbers.
HR_API int32_t hr_dataset_labels(const hr_dataset* dataset, uint32_t* labels);
// The path of a sample (of a record, its pack's) within the data set, cut off at `buffer_bytes` with its closing zero.
// Returns how long it is, without the zero; 0: there is no such sample.
HR_API uint64_t hr_dataset_path(const hr_dataset* dataset, uint64_t index, char* buffer, uint64_t buffer_bytes);

// What the data set is: paths and sizes, in order; of records those of the packs, and where in these they lie. Sums
// modulo 2^61 - 1 of hash(i), and of (i + 1) * hash(i): where a single file differs, the quotient of the differences is
// its number plus one; of a pack, that of its first record.
typedef struct hr_digest {
  uint64_t sample_count;
  uint64_t sum;
  uint64_t weighted_sum;
} hr_digest;
HR_API int32_t hr_dataset_digest(const hr_dataset* dataset, hr_digest* digest);

// The samples of an epoch in the order of a spec (`headrace order --help` lists them). `indices` NULL: only their
// number, in `count`; else at most `count` of them are written. Errors: HR_INVALID_ARGUMENT.
HR_API int32_t hr_order_epoch(const hr_dataset* dataset, const char* order, uint64_t epoch, uint32_t* indices,
                              uint64_t* count);

// ---- a loader ----

enum { HR_CONTENT_IMAGES = 0, HR_CONTENT_BYTES = 1, HR_CONTENT_JPEGS = 2 };
enum { HR_BAD_RAISE = 0, HR_BAD_SKIP = 1, HR_BAD_ZERO = 2 };
enum { HR_RANDOM_RESIZED_CROP = 0, HR_RESIZE_CENTER_CROP = 1, HR_RESIZE = 2, HR_PAD_CROP = 3 };
enum { HR_UINT8 = 0, HR_FLOAT16 = 1, HR_BFLOAT16 = 2, HR_FLOAT32 = 3 };
enum { HR_CHANNELS_FIRST = 0, HR_CHANNELS_LAST = 1 };
enum { HR_DAMAGE_REPAIR = 0, HR_DAMAGE_REJECT = 1, HR_DAMAGE_SALVAGE = 2 };
enum { HR_BILINEAR = 0, HR_BICUBIC = 1 };
enum { HR_AUGMENT_NONE = 0, HR_TRIVIAL_AUGMENT_WIDE = 1, HR_RAND_AUGMENT = 2 };
enum { HR_DRAW_BY_POSITION = 0, HR_DRAW_AS_TORCH = 1 };

typedef struct hr_loader_options {
  uint64_t struct_bytes;

  const char* order;        // a spec; or NULL, and:
  const uint32_t* indices;  // the samples of `first_epoch`, the only one
  uint64_t index_count;
  uint64_t first_epoch;
  uint64_t epochs;           // 0: without end
  uint64_t first_position;   // resume: this many samples of the first epoch are left out
  uint64_t position_stride;  // sample i of an epoch draws its random numbers at position offset + i * stride (0: 1),
  uint64_t position_offset;  // so that they do not depend on how many ranks share the epoch

  uint64_t batch_size;     // 1 to 65536
  uint64_t batches_ahead;  // made ahead of the one that the consumer has; at most 64; 0: 2
  uint64_t batches_lent;   // that many less one may be kept in the loader's memory; what is kept beyond is copied. 0: 3
  uint64_t window_bytes;   // how far to read ahead. 0: chosen from the memory
  uint64_t seed;           // of all that is drawn
  int32_t content;
  int32_t drop_last;
  int32_t bad_samples;
  int32_t damage;
  int32_t apply_orientation;
  int32_t threads;  // 0: as many as this process may use at once

  int32_t geometry;
  uint32_t width;
  uint32_t height;
  uint32_t shorter_side;  // HR_RESIZE_CENTER_CROP
  uint32_t padding;       // HR_PAD_CROP
  uint32_t fill;
  double scale_min;  // HR_RANDOM_RESIZED_CROP
  double scale_max;
  double ratio_min;
  double ratio_max;
  double flip_probability;
  double brightness;
  double contrast;
  double saturation;
  double hue;
  int32_t no_antialias;
  int32_t dct_scaling;

  int32_t element_type;
  int32_t layout;
  double mean[3];
  double standard_deviation[3];  // all zero: 1

  int32_t draw;            // HR_DRAW_AS_TORCH: crops and flips that a torch DataLoader would draw, see below
  uint32_t torch_workers;  // its num_workers; 0: the main process draws
  uint64_t torch_seed;     // what seeded its main process (0 workers), or the base seed of its workers

  int32_t interpolation;       // HR_BICUBIC: as PIL's, which has antialias
  int32_t augment;             // HR_TRIVIAL_AUGMENT_WIDE, HR_RAND_AUGMENT: torchvision's, behind the colour jitter
  uint32_t augment_bins;       // num_magnitude_bins, 2 to 1000; 0: 31
  uint32_t augment_ops;        // HR_RAND_AUGMENT: num_ops, at most 16
  uint32_t augment_magnitude;  // HR_RAND_AUGMENT: below the bins
  uint32_t reserved;           // 0
} hr_loader_options;

// HR_CONTENT_JPEGS: samples are decoded, resized, mirrored and normalised by the caller, on a GPU for instance. Each is
// a small JPEG that has what its crop shows (hr_batch.contents, windows and crops). What no such part can be cut out of
// (no JPEG, damaged, progressive, four channels, to be turned upright) is a finished sample. No jitter, no augment.

// HR_DRAW_AS_TORCH: torchvision's RandomResizedCrop then RandomHorizontalFlip, from the first position of one epoch on.
// Each worker has a Mersenne Twister of its own, seeded base + number, and draws for the samples of every
// torch_workers-th batch in turn. So it starts at position 0 and takes one epoch.

typedef struct hr_bytes {
  const void* data;  // NULL: a bad sample
  uint64_t bytes;
} hr_bytes;

// A sample that is bad, or was repaired.
typedef struct hr_note {
  uint64_t position;  // within the epoch, as the random numbers see it
  uint64_t index;
  int32_t state;
  const char* reason;  // names the file
} hr_note;

// What a sample shows of its image: for the boxes and masks that go with it.
typedef struct hr_crop {
  uint32_t image_width;  // as it is stored, or upright (apply_orientation). 0: a bad sample
  uint32_t image_height;
  double x;  // the part of the image, in its pixels
  double y;
  double width;
  double height;
  uint32_t target_x;  // where in the sample that part stands, resized; all of it unless there is a border
  uint32_t target_y;
  uint32_t target_width;
  uint32_t target_height;
  uint64_t mirrored;  // 1: the part is turned left to right
} hr_crop;

// HR_CONTENT_JPEGS: what of a sample's JPEG is resized to the crop's target (and mirrored) by who decodes it. The
// filter sees the pixels of x, y, width, height alone; the part that becomes the target lies at part_x, part_y in
// these.
typedef struct hr_window {
  double x;  // of the JPEG, in whole pixels
  double y;
  double width;  // 0: the sample is finished, as an image of HR_CONTENT_IMAGES; or bad, without bytes
  double height;
  double part_x;
  double part_y;
  double part_width;
  double part_height;
} hr_window;

enum { HR_SAMPLE_GOOD = 0, HR_SAMPLE_REPAIRED = 1, HR_SAMPLE_BAD = 2 };

// A batch on loan. Nobody writes its memory until it is released, which any thread may do.
typedef struct hr_batch {
  uint64_t epoch;
  uint64_t next_position;  // samples of the epoch that are done with this batch: where to resume
  uint64_t count;          // of samples. 0: the epoch makes no batch (all skipped, or too few for drop_last)
  uint64_t sample_bytes;   // of one image
  void* images;            // count images, one after the other, 64-byte aligned; HR_CONTENT_IMAGES alone
  int64_t* labels;         // in the memory of the images, right behind them, 64-byte aligned
  int64_t* indices;        // behind the labels
  const uint8_t* states;
  const hr_bytes* contents;  // HR_CONTENT_BYTES: of the file. HR_CONTENT_JPEGS: a JPEG of what its crop shows
  const hr_note* notes;      // also on samples that were skipped
  uint64_t note_count;
  int32_t copied;            // 1: too many batches are not released yet, so this one is a copy in memory of its own
  const hr_crop* crops;      // NULL with HR_CONTENT_BYTES
  const hr_window* windows;  // HR_CONTENT_JPEGS
} hr_batch;

// Errors: HR_INVALID_ARGUMENT, HR_OUT_OF_RANGE (an index), HR_NO_MEMORY, HR_FORKED (also where the data set was opened
// before the fork).
HR_API int32_t hr_loader_open(hr_dataset* dataset, const hr_loader_options* options, hr_loader** loader);
// Joins the loader's threads. No other call on this loader may be under way.
HR_API void hr_loader_close(hr_loader* loader);
// Waits at most `timeout_ms`. One thread at a time. Errors: HR_END, HR_TIMED_OUT, those of a bad sample (HR_BAD_RAISE),
// HR_INVALID_ARGUMENT for NULL.
HR_API int32_t hr_loader_next(hr_loader* loader, uint32_t timeout_ms, hr_batch** batch);
// Ends hr_loader_next(), now and later.
HR_API void hr_loader_stop(hr_loader* loader);
// JSON: what each stage did and waited, the bottleneck, and the tiers. As hr_dataset_path(); 0 also after a fork, and
// for NULL.
HR_API uint64_t hr_loader_report(const hr_loader* loader, char* buffer, uint64_t buffer_bytes);

HR_API void hr_batch_retain(hr_batch* batch);
HR_API void hr_batch_release(hr_batch* batch);

enum { HR_PART_IMAGES = 0, HR_PART_LABELS = 1, HR_PART_INDICES = 2 };
// A DLManagedTensor (DLPack before 1.0, CPU) that keeps the batch until its deleter runs, on any thread. NULL: there
// are no such images, or memory is short.
HR_API void* hr_batch_dlpack(hr_batch* batch, int32_t part);
// A function of type void(void*) for owners of such a tensor that nobody took.
HR_API void hr_dlpack_drop(void* managed_tensor);
// The same for Python's owner, a PyCapsule named "dltensor": its destructor, in C because it may run while an exception
// is set, which a destructor in Python would lose. Does nothing for a tensor that was taken.
HR_API void hr_dlpack_drop_capsule(void* capsule);

#ifdef __cplusplus
}
#endif

#endif  // HEADRACE_HEADRACE_H
