// The writers as C++.
#include "launch.hpp"

#include "intrinsics.hpp"

#include "../cuda/fp8_ds_mla_write.cu"
#include "../cuda/mla_copy.cu"
#include "../cuda/mla_fp8_write.cu"
#include "../cuda/nvfp4_ds_mla_write.cu"

EXPORT_KERNEL(fp8_ds_mla_write, WriteArgs)
EXPORT_KERNEL(mla_copy, WriteArgs)
EXPORT_KERNEL(mla_fp8_write, WriteArgs)
EXPORT_KERNEL(nvfp4_ds_mla_write, WriteArgs)
