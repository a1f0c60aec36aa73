// The gather kernels as C++: one exported entry a kernel, named after it.
#include "launch.hpp"

#include "intrinsics.hpp"

#include "../cuda/nvfp4_gather_plain.cu"
#include "../cuda/nvfp4_gather_tuned.cu"

#define EXPORT_KERNEL(kernel)                                                                              \
    HOST_EXPORT void kernel##_host(const GatherArgs* args, long long blocks, unsigned width, unsigned height) { \
        host::launch(kernel, blocks, width, height, *args);                                                \
    }

EXPORT_KERNEL(nvfp4_gather_plain)
EXPORT_KERNEL(nvfp4_gather_tuned)
