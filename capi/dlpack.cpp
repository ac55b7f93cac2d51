// SPDX-License-Identifier: Apache-2.0
// DLPack, so that numpy, torch and JAX take a batch without a copy. The structs are those of DLPack 0.8, whose layout
// is frozen for everything before 1.0 (github.com/dmlc/dlpack, include/dlpack/dlpack.h). The deleter is C, because it
// runs on any thread and without Python's lock (dmlc/dlpack#103).
#include <array>
#include <cstdint>
#include <new>

#include "headrace/capi/internal/batch.h"

namespace headrace::capi {
namespace {

struct DlDevice {
  std::int32_t type = 1;  // kDLCPU
  std::int32_t id = 0;
};
struct DlDataType {
  std::uint8_t code = 0;  // kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};
struct DlTensor {
  void* data = nullptr;
  DlDevice device;
  std::int32_t dimensions = 0;
  DlDataType type;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // null: row by row
  std::uint64_t byte_offset = 0;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context = nullptr;
  void (*deleter)(DlManagedTensor* self) = nullptr;
};
static_assert(sizeof(DlTensor) == 48 && sizeof(DlManagedTensor) == 64, "as DLPack has them on 64-bit machines");

struct Export {
  DlManagedTensor managed;
  std::array<std::int64_t, 4> shape = {};
};

constexpr DlDataType kInt64 = {0, 64, 1};

DlDataType type_of(std::int32_t element_type) {
  switch (element_type) {
    case HR_FLOAT16:
      return {2, 16, 1};
    case HR_BFLOAT16:
      return {4, 16, 1};
    case HR_FLOAT32:
      return {2, 32, 1};
    default:
      return {1, 8, 1};
  }
}

void drop(DlManagedTensor* managed) {
  hr_batch_release(static_cast<hr_batch*>(managed->context));
  delete reinterpret_cast<Export*>(managed);  // its first member
}

}  // namespace
}  // namespace headrace::capi

void* hr_batch_dlpack(hr_batch* batch, int32_t part) {
  using namespace headrace::capi;
  void* const data = part == HR_PART_IMAGES   ? batch->images
                     : part == HR_PART_LABELS ? static_cast<void*>(batch->labels)
                                              : static_cast<void*>(batch->indices);
  if (data == nullptr) return nullptr;
  const auto* handle = static_cast<const BatchHandle*>(batch);
  auto* made = new (std::nothrow) Export;
  if (made == nullptr) return nullptr;
  made->shape = handle->shape;
  if (part != HR_PART_IMAGES) made->shape[0] = static_cast<std::int64_t>(batch->count);
  made->managed.tensor.data = data;
  made->managed.tensor.dimensions = part == HR_PART_IMAGES ? 4 : 1;
  made->managed.tensor.type = part == HR_PART_IMAGES ? type_of(handle->element_type) : kInt64;
  made->managed.tensor.shape = made->shape.data();
  made->managed.context = batch;
  made->managed.deleter = drop;
  hr_batch_retain(batch);
  return &made->managed;
}

// Python's, where this library lies in a process of Python; elsewhere nobody has a capsule.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" int PyCapsule_IsValid(void* capsule, const char* name) __attribute__((weak));
extern "C" void* PyCapsule_GetPointer(void* capsule, const char* name) __attribute__((weak));
// NOLINTEND(readability-identifier-naming)

void hr_dlpack_drop_capsule(void* capsule) {
  constexpr const char* kNotTaken = "dltensor";  // who takes the tensor renames the capsule
  if (PyCapsule_IsValid == nullptr || PyCapsule_GetPointer == nullptr) return;
  if (PyCapsule_IsValid(capsule, kNotTaken) != 0) hr_dlpack_drop(PyCapsule_GetPointer(capsule, kNotTaken));
}

void hr_dlpack_drop(void* managed_tensor) {
  auto* managed = static_cast<headrace::capi::DlManagedTensor*>(managed_tensor);
  managed->deleter(managed);
}
