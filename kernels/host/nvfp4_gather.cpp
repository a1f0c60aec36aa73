// The gather kernels as C++.
#include "launch.hpp"

#include "intrinsics.hpp"

#include "../cuda/nvfp4_gather_plain.cu"
#include "../cuda/nvfp4_gather_tuned.cu"

EXPORT_KERNEL(nvfp4_gather_plain, GatherArgs)
EXPORT_KERNEL(nvfp4_gather_tuned, GatherArgs)
