// The threads of a block, each a fiber: one runs until it waits, then the next. What they wait for
// are barriers of the block and of warps, at which those that have ended are not waited for.
#include <cstdlib>
#include <ucontext.h>
#include <vector>

namespace block {
struct Place { int x, y, z; };
struct Barrier { int turn = 0, arrived = 0, alive = 0; };
struct Fiber {
  ucontext_t context;
  bool done;
  int number;
  Place place;
};

const int WARP = 32, STACK = 1 << 17;
alignas(1024) static unsigned char memory[256 << 10];  // shared, of a size known at the launch
static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static std::vector<uint64_t> lanes;  // what each thread shows to the others of its warp
static Barrier whole;
static int running;
static long steps;  // of any thread past a barrier: none is a deadlock
static ucontext_t outside;
static Place index, threads, blocks;
static const char* failure;

static Fiber& self() { return fibers[running]; }
static int lane() { return self().number % WARP; }
static Barrier& warp() { return warps[self().number / WARP]; }
static void pause() { swapcontext(&self().context, &outside); }

static void open(Barrier& b) {
  b.arrived = 0;
  ++b.turn;
}
static void wait(Barrier& b) {
  int turn = b.turn;
  ++steps;
  if (++b.arrived >= b.alive) open(b);
  while (b.turn == turn) pause();
}
static void leave(Barrier& b) {
  if (--b.alive && b.arrived >= b.alive) open(b);
}
static void end() {
  self().done = true;
  ++steps;
  leave(whole);
  leave(warp());
  for (;;) pause();
}
static void fail(const char* why) {
  failure = why;
  for (;;) pause();
}

// all blocks, one after the other; what went wrong, or null
static const char* launch(void (*entry)(), const int* grid, const int* sizes) {
  static std::vector<void*> stacks;
  int count = sizes[0] * sizes[1] * sizes[2];
  while ((int)stacks.size() < count) stacks.push_back(malloc(STACK));
  blocks = {grid[0], grid[1], grid[2]};
  threads = {sizes[0], sizes[1], sizes[2]};
  failure = nullptr;
  for (int n = 0; n < grid[0] * grid[1] * grid[2]; ++n) {
    index = {n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]};
    memset(memory, 0xab, sizeof memory);
    fibers.assign(count, Fiber());
    lanes.assign(count + WARP, 0);
    whole = Barrier();
    whole.alive = count;
    warps.assign((count + WARP - 1) / WARP, Barrier());
    for (int i = 0; i < count; ++i) {
      Fiber& f = fibers[i];
      f.number = i;
      f.place = {i % sizes[0], i / sizes[0] % sizes[1], i / sizes[0] / sizes[1]};
      ++warps[i / WARP].alive;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = stacks[i];
      f.context.uc_stack.ss_size = STACK;
      makecontext(&f.context, entry, 0);
    }
    for (bool left = true; left;) {
      long before = steps;
      left = false;
      for (running = 0; running < count; ++running) {
        if (fibers[running].done) continue;
        left = true;
        swapcontext(&outside, &self().context);
        if (failure) return failure;
      }
      if (left && steps == before) return "threads wait for each other for ever";
    }
  }
  return nullptr;
}

// what another lane shows: that of `source`, or one's own where there is none
template <class T>
static T shown(T value, int source) {
  static_assert(sizeof value <= sizeof lanes[0], "");
  int number = self().number, first = number / WARP * WARP;
  memcpy(&lanes[number], &value, sizeof value);
  wait(warp());
  T result = value;
  if (source >= 0 && first + source < (int)fibers.size()) {
    memcpy(&result, &lanes[first + source], sizeof result);
  }
  wait(warp());
  return result;
}
}  // namespace block

#define threadIdx (block::self().place)
#define blockIdx (block::index)
#define blockDim (block::threads)
#define gridDim (block::blocks)
#define __trap() block::fail("a trap")
static void __syncthreads() { block::wait(block::whole); }
static void __syncwarp(unsigned int = ~0u) { block::wait(block::warp()); }
static void __threadfence() {}
static void __threadfence_block() {}
static unsigned int __activemask() {
  unsigned int mask = 0;
  for (auto& f : block::fibers) {
    if (f.number / 32 == block::self().number / 32 && !f.done) mask |= 1u << f.number % 32;
  }
  return mask;
}
template <class T>
static T __shfl_sync(unsigned int, T value, int source, int width = 32) {
  int first = block::lane() / width * width;
  return block::shown(value, first + (source % width + width) % width);
}
template <class T>
static T __shfl_up_sync(unsigned int, T value, unsigned int by, int width = 32) {
  int source = block::lane() - (int)by;
  return block::shown(value, source < block::lane() / width * width ? -1 : source);
}
template <class T>
static T __shfl_down_sync(unsigned int, T value, unsigned int by, int width = 32) {
  int source = block::lane() + (int)by;
  return block::shown(value, source >= block::lane() / width * width + width ? -1 : source);
}
template <class T>
static T __shfl_xor_sync(unsigned int, T value, int by, int width = 32) {
  int source = block::lane() ^ by;
  return block::shown(value, source >= block::lane() / width * width + width ? -1 : source);
}
#define ATOMIC(name, result)             \
  template <class T, class U>            \
  static T atomic##name(T* to, U given) { \
    T old = *to, value = (T)given;       \
    *to = result;                        \
    return old;                          \
  }
ATOMIC(Add, old + value)
ATOMIC(Sub, old - value)
ATOMIC(Max, old > value ? old : value)
ATOMIC(Min, old < value ? old : value)
ATOMIC(Exch, value)
ATOMIC(And, old & value)
ATOMIC(Or, old | value)
ATOMIC(Xor, old ^ value)
template <class T, class U, class V>
static T atomicCAS(T* to, U compared, V value) {
  T old = *to;
  if (old == (T)compared) *to = (T)value;
  return old;
}
