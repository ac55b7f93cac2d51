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
// tar as WebDataset reads it: record i is the i-th sample, all members in a row whose paths agree up to the first dot
// of their names, with their headers and padding.
[[nodiscard]] io::Result<RecordMap> map_tar(const PackFile& pack);
// TFRecord: record i is the i-th record, with its length and checksums.
[[nodiscard]] io::Result<RecordMap> map_tfrecord(const PackFile& pack);
// Whether a file that begins so is a TFRecord: the checksum of the first length is right. `head`: 12 bytes or more.
[[nodiscard]] bool begins_tfrecord(std::span<const std::byte> head);
// A shard of Mosaic's MDS, or a chunk of LitData: record i is sample i.
[[nodiscard]] io::Result<RecordMap> map_mds(const PackFile& pack);
// FFCV's .beton: record i is what sample i has beside its metadata.
[[nodiscard]] io::Result<RecordMap> map_ffcv(const PackFile& pack);
// Megatron's .bin by the .idx beside it: record i is sequence i.
[[nodiscard]] io::Result<RecordMap> map_megatron(const PackFile& pack, const PackFile& index);
// Arrow's stream and file: record i is record batch i, with its header.
[[nodiscard]] io::Result<RecordMap> map_arrow(const PackFile& pack);

// A data set of HDF5: record i is row i, or where several rows share a chunk, chunk i of rows. An empty name is the
// largest data set of the file.
[[nodiscard]] io::Result<RecordMap> map_hdf5(const PackFile& pack, std::string_view name);
// Whether a file that begins so is HDF5, by its first bytes or behind those of MATLAB. `head`: 520 bytes, or all.
[[nodiscard]] bool begins_hdf5(std::span<const std::byte> head);

}  // namespace headrace::cache
