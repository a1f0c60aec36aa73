// The kernels as C++ with a record of every access to memory. The compiler's -fsanitize=thread puts a call of a hook
// before each access; the hooks here take the place of ThreadSanitizer's library and note who accesses what.
#include HOST_SOURCE

#include <cstdint>

struct Access {
    std::uint64_t address;
    std::uint32_t block;
    std::uint16_t row, lane;  // threadIdx.y, threadIdx.x
    std::int32_t bytes;       // below 0: written
    std::int32_t unused;
};

static constexpr long long kMost = 1 << 17;
static Access trace[kMost];
static long long used = 0;

#define UNTRACED __attribute__((no_sanitize("thread"), visibility("default")))

extern "C" {
UNTRACED void trace_clear() { used = 0; }
UNTRACED const Access* trace_begin() { return trace; }
UNTRACED long long trace_used() { return used; }

UNTRACED void trace_note(void* address, std::int32_t bytes) {
    if (used == kMost) std::abort();
    trace[used++] = {reinterpret_cast<std::uint64_t>(address), blockIdx.x, static_cast<std::uint16_t>(threadIdx.y),
                     static_cast<std::uint16_t>(threadIdx.x), bytes, 0};
}

#define HOOKS(prefix, size)                                                          \
    UNTRACED void __tsan_##prefix##read##size(void* at) { trace_note(at, size); }    \
    UNTRACED void __tsan_##prefix##write##size(void* at) { trace_note(at, -size); }
HOOKS(, 1) HOOKS(, 2) HOOKS(, 4) HOOKS(, 8) HOOKS(, 16)
HOOKS(unaligned_, 2) HOOKS(unaligned_, 4) HOOKS(unaligned_, 8) HOOKS(unaligned_, 16)
HOOKS(volatile_, 1) HOOKS(volatile_, 2) HOOKS(volatile_, 4) HOOKS(volatile_, 8) HOOKS(volatile_, 16)

UNTRACED void __tsan_init() {}
UNTRACED void __tsan_func_entry(void*) {}
UNTRACED void __tsan_func_exit() {}
UNTRACED void __tsan_vptr_update(void**, void*) {}
UNTRACED long long __tsan_atomic64_fetch_add(volatile long long* at, long long term, int) {
    return __atomic_fetch_add(at, term, __ATOMIC_SEQ_CST);
}
}
