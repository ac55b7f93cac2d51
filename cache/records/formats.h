// SPDX-License-Identifier: Apache-2.0
// The readers of packs, one source each. Each makes the whole map or says in one line why it cannot.
//
// Thread-safety: pure functions on files.
#pragma once

#include "headrace/cache/record_map.h"
#include "headrace/cache/records/pack_file.h"

namespace headrace::cache {

// numpy.save, and np.load(mmap_mode=): record i is row i. No structured or Python types, no Fortran order.
[[nodiscard]] io::Result<RecordMap> map_npy(const PackFile& pack);
// LMDB's main database: record i is the value of key "i" where the keys are 0 .. n-1 in decimal, padded or not, and
// else the i-th value in the order of a cursor. Keys that describe the data set (__keys__, __len__, length) do not
// count.
[[nodiscard]] io::Result<RecordMap> map_lmdb(const PackFile& pack);
// MXNet's RecordIO: record i is line i of the .idx beside the .rec, with its header and padding.
[[nodiscard]] io::Result<RecordMap> map_recordio(const PackFile& pack, const PackFile& index);

}  // namespace headrace::cache
