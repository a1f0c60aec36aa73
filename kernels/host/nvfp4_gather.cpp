// The gather kernels as C++: one exported entry a kernel, named after it.
#include "launch.hpp"

#include "../cuda/nvfp4_gather.cu"

HOST_EXPORT void nvfp4_gather_plain_host(const GatherArgs* args, long long blocks, unsigned width, unsigned height) {
    host::launch(nvfp4_gather_plain, blocks, width, height, *args);
}
