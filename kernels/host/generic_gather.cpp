// The gathers of records of numbers alike as C++.
#include "launch.hpp"

#include "intrinsics.hpp"

#include "../cuda/generic_copy_gather.cu"
#include "../cuda/generic_fp8_gather.cu"

EXPORT_KERNEL(generic_copy_gather, GenericGatherArgs)
EXPORT_KERNEL(generic_fp8_gather, GenericGatherArgs)
