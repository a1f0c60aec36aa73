// The gather of fp8_ds_mla as C++.
#include "launch.hpp"

#include "intrinsics.hpp"

#include "../cuda/fp8_gather.cu"

EXPORT_KERNEL(fp8_gather, GatherArgs)
