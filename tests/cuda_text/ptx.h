// The instructions that asm statements name: see the PTX ISA. Floats of 16 bits are their bits.
namespace ptx {
static double half(unsigned short x) { return (double)bits_as<_Float16>(x); }
static double bfloat(unsigned short x) { return (double)bits_as<float>((unsigned int)x << 16); }
template <class T>
static unsigned short to_half(T x) { return bits_as<unsigned short>((_Float16)x); }
// rounded once: a float between would be rounded again
static unsigned short to_bfloat(double x) {
  if (x != x) return 0x7fff;
  int exponent;
  double digits = frexp(x, &exponent), unit = ldexp(1.0, (exponent < -125 ? -125 : exponent) - 8);
  if (std::isfinite(x) && digits != 0) x = nearbyint(x / unit) * unit;
  return (unsigned short)(bits_as<unsigned int>((float)x) >> 16);
}
static unsigned int pair(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }
#define LOW(x) ((unsigned short)(x))
#define HIGH(x) ((unsigned short)((x) >> 16))

static void cvt_f32_f16(float& d, unsigned short a) { d = (float)half(a); }
static void cvt_rn_f16_f32(unsigned short& d, float a) { d = to_half(a); }
static void cvt_rn_f16_f64(unsigned short& d, double a) { d = to_half(a); }
static void cvt_rn_f16_s64(unsigned short& d, long long a) { d = to_half((double)a); }
static void cvt_rn_f16_u64(unsigned short& d, unsigned long long a) { d = to_half((double)a); }
static void cvt_rn_bf16_f32(unsigned short& d, float a) { d = to_bfloat(a); }
static void cvt_rn_bf16x2_f32(unsigned int& d, float high, float low) {
  d = pair(to_bfloat(low), to_bfloat(high));
}
static void cvt_rna_tf32_f32(unsigned int& d, float a) {
  d = a != a || std::isinf(a) ? bits_as<unsigned int>(a)
                              : (bits_as<unsigned int>(a) + 0x1000) & 0xffffe000u;
}
static void ex2_approx_ftz_f32(float& d, float a) {
  d = exp2f(fabsf(a) < 1.17549435e-38f ? 0 : a);
  if (fabsf(d) < 1.17549435e-38f) d = 0;
}
static void min_NaN_f32(float& d, float a, float b) { d = a < b || a != a ? a : b; }
static void max_NaN_f32(float& d, float a, float b) { d = a > b || a != a ? a : b; }

#define TWO(name, symbol)                                                             \
  static void name##_rn_f16(unsigned short& d, unsigned short a, unsigned short b) {  \
    d = to_half(half(a) symbol half(b));                                              \
  }                                                                                   \
  static void name##_rn_f16x2(unsigned int& d, unsigned int a, unsigned int b) {      \
    d = pair(to_half(half(LOW(a)) symbol half(LOW(b))),                               \
             to_half(half(HIGH(a)) symbol half(HIGH(b))));                            \
  }
TWO(add, +)
TWO(sub, -)
TWO(mul, *)
#define FMA(type, from, to)                                                                \
  static void fma_rn_##type(unsigned short& d, unsigned short a, unsigned short b,         \
                            unsigned short c) {                                            \
    d = to(from(a) * from(b) + from(c));                                                   \
  }                                                                                        \
  static void fma_rn_##type##x2(unsigned int& d, unsigned int a, unsigned int b,           \
                                unsigned int c) {                                          \
    d = pair(to(from(LOW(a)) * from(LOW(b)) + from(LOW(c))),                               \
             to(from(HIGH(a)) * from(HIGH(b)) + from(HIGH(c))));                           \
  }
FMA(f16, half, to_half)
FMA(bf16, bfloat, to_bfloat)

// addresses in shared memory, which has others besides what `block::memory` holds: from there on
static unsigned int shared(const void* p) { return (unsigned int)((const char*)p - (char*)block::memory); }
static char* shared_at(unsigned int place) { return (char*)block::memory + (int)place; }

static void cp_async(unsigned int to, const void* from, int bytes, int taken, int further, int ahead,
                     int go = 1) {
  if (!go) return;
  char* target = shared_at(to) + further;
  if ((uintptr_t)target % bytes || (uintptr_t)((const char*)from + ahead) % bytes) {
    block::fail("cp.async between addresses that are no multiples of its bytes");
  }
  memset(target, 0, bytes);
  memcpy(target, (const char*)from + ahead, taken);
}

template <int COUNT, bool TRANSPOSED>
static void ldmatrix(unsigned int* d, unsigned int place, int further) {
  int number = block::self().number, first = number / 32 * 32, lane = number % 32;
  block::lanes[number] = (uint64_t)(shared_at(place) + further);
  if (block::lanes[number] % 16) block::fail("ldmatrix of a row that begins at no multiple of 16");
  block::wait(block::warp());
  for (int m = 0; m < COUNT; ++m) {
    unsigned short two[2];
    for (int e = 0; e < 2; ++e) {
      int row = lane / 4, column = lane % 4 * 2 + e;
      if (TRANSPOSED) row = lane % 4 * 2 + e, column = lane / 4;
      two[e] = ((unsigned short*)block::lanes[first + 8 * m + row])[column];
    }
    d[m] = pair(two[0], two[1]);
  }
  block::wait(block::warp());
}

// elements of registers, by types of operands
struct f16 { static const int IN_ONE = 2; };
struct bf16 { static const int IN_ONE = 2; };
struct tf32 { static const int IN_ONE = 1; };
struct s8 { static const int IN_ONE = 4; };
struct u8 { static const int IN_ONE = 4; };
static double element(f16, unsigned int r, int i) { return half((unsigned short)(r >> 16 * i)); }
static double element(bf16, unsigned int r, int i) { return bfloat((unsigned short)(r >> 16 * i)); }
static double element(tf32, unsigned int r, int) { return bits_as<float>(r & 0xffffe000u); }
static double element(s8, unsigned int r, int i) { return (signed char)(r >> 8 * i); }
static double element(u8, unsigned int r, int i) { return (unsigned char)(r >> 8 * i); }
static void accumulate(float& d, double x) { d = (float)(d + x); }
static void accumulate(unsigned int& d, double x) { d = (unsigned int)((int)d + (long long)x); }

static std::vector<std::vector<unsigned int>> registers;

// PTX ISA, "Matrix Fragments for mma": row `lane / 4` and eight below, pairs (or fours) of columns
template <int ROWS, int STEPS, class A, class B, class D>
static void mma(D** d, const unsigned int* a, int of_a, const unsigned int* b, int of_b) {
  const int IN_ONE = A::IN_ONE;
  int number = block::self().number, first = number / 32 * 32, lane = number % 32;
  if (registers.size() < block::fibers.size()) registers.resize(block::fibers.size());
  registers[number].assign(a, a + of_a);
  registers[number].insert(registers[number].end(), b, b + of_b);
  block::wait(block::warp());
  for (int i = 0; i < ROWS * 8 / 32; ++i) {
    int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
    double sum = 0;
    for (int k = 0; k < STEPS; ++k) {
      int part = k / (4 * IN_ONE), inside = k % (4 * IN_ONE), at = inside / IN_ONE;
      unsigned int x = registers[first + row % 8 * 4 + at][ROWS == 16 ? 2 * part + row / 8 : part];
      unsigned int y = registers[first + column * 4 + at][of_a + part];
      sum += element(A(), x, inside % IN_ONE) * element(B(), y, inside % IN_ONE);
    }
    accumulate(*d[i], sum);
  }
  block::wait(block::warp());
}
}  // namespace ptx
#define __cvta_generic_to_shared(p) ((unsigned long)ptx::shared(p))
