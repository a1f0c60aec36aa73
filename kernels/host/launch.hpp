// Just enough of CUDA's execution model to run a kernel as ordinary C++: each thread of each block in turn.
//
// It suits kernels in which no thread waits for a later one: no shuffles, no shared memory, and a barrier only where what
// comes behind it is for the last lane.
#pragma once

#include <vector_types.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

static thread_local uint3 threadIdx;
static thread_local uint3 blockIdx;
static thread_local dim3 blockDim;
static thread_local dim3 gridDim;

#define HOST_EXPORT extern "C" __attribute__((visibility("default")))

// The exported entry of a kernel, named after it.
#define EXPORT_KERNEL(kernel, Args)                                                                        \
    HOST_EXPORT void kernel##_host(const Args* args, long long blocks, unsigned width, unsigned height) {  \
        host::launch(kernel, blocks, width, height, *args);                                                \
    }

namespace host {
namespace {  // internal, so that several builds of these sources can be loaded into one process

// Grids smaller than this stay on the calling thread: starting threads would cost more than the work, and the suite
// makes many thousands of small launches.
constexpr long long kSmallGrid = 64;
constexpr long long kBlocksAtATime = 16;

// How many threads a large grid may keep busy: what OMP_NUM_THREADS says, a process's share of the CPUs, or all of them.
inline unsigned most_threads() {
    const char* told = std::getenv("OMP_NUM_THREADS");
    const int share = told == nullptr ? 0 : std::atoi(told);
    return share > 0 ? static_cast<unsigned>(share) : std::thread::hardware_concurrency();
}

// While it lives, its thread rounds to nearest and keeps subnormals, as a GPU does: a process may have asked otherwise,
// for example with torch.set_flush_denormal, or by loading a library built with -ffast-math.
class DefaultArithmetic {
  public:
    DefaultArithmetic() {
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultArithmetic() { std::fesetenv(&before_); }
    DefaultArithmetic(const DefaultArithmetic&) = delete;
    DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

  private:
    std::fenv_t before_;
};

template <class Kernel, class Args>
void run_block(Kernel kernel, long long block_index, const Args& args) {
    blockIdx = uint3{static_cast<unsigned>(block_index), 0, 0};
    for (unsigned y = 0; y < blockDim.y; ++y) {
        for (unsigned x = 0; x < blockDim.x; ++x) {
            threadIdx = uint3{x, y, 0};
            kernel(args);
        }
    }
}

// Runs `kernel` with a one-dimensional grid of `blocks` blocks of `width` x `height` threads, and returns when all of
// them are done.
template <class Kernel, class Args>
void launch(Kernel kernel, long long blocks, unsigned width, unsigned height, const Args& args) {
    std::atomic<long long> next{0};
    const auto work = [&] {
        const DefaultArithmetic arithmetic;
        gridDim = dim3(static_cast<unsigned>(blocks));
        blockDim = dim3(width, height);
        for (long long first = next.fetch_add(kBlocksAtATime); first < blocks; first = next.fetch_add(kBlocksAtATime)) {
            const long long end = std::min(blocks, first + kBlocksAtATime);
            for (long long block = first; block < end; ++block) run_block(kernel, block, args);
        }
    };
    std::vector<std::thread> helpers;
    if (blocks >= kSmallGrid) {
        try {
            for (unsigned n = 1; n < most_threads(); ++n) helpers.emplace_back(work);
        } catch (const std::system_error&) {
            // A machine that gives no further thread is slower and no less right: this thread takes what is left.
        }
    }
    work();
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace
}  // namespace host
