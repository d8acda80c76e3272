// VPDPBUSD on vectors: multiplies four unsigned bytes with four signed ones, adds the products to
// an int32. The including file sets the vectors' width by TVQ_VNNI_BITS: 512, or 256 for the
// encoding of AVX-VNNI, which processors without AVX-512 have. For x86-64 alone.
#ifndef TVQ_KERNELS_CPU_VNNI_INL_H_
#define TVQ_KERNELS_CPU_VNNI_INL_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// TVQ_MM(name): the intrinsic of that name for the width.
#if TVQ_VNNI_BITS == 512
#define TVQ_VNNI_NAMESPACE avx512_vnni
#define TVQ_VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define TVQ_MM(name) _mm512_##name
#elif TVQ_VNNI_BITS == 256
#define TVQ_VNNI_NAMESPACE avx_vnni
#define TVQ_VNNI_TARGET __attribute__((target("avx2,fma,avxvnni")))
#define TVQ_MM(name) _mm256_##name
#else
#error "TVQ_VNNI_BITS must be 256 or 512"
#endif

namespace tvq::TVQ_VNNI_NAMESPACE {

#if TVQ_VNNI_BITS == 512
using Bytes = __m512i;
using Floats = __m512;
#else
using Bytes = __m256i;
using Floats = __m256;
#endif
// Vectors of int32. With __m512i, which is a vector of int64, g++ 12 copies accumulators back and
// forth.
using Ints = int __attribute__((vector_size(TVQ_VNNI_BITS / 8)));

inline constexpr int64_t kVectorBytes = TVQ_VNNI_BITS / 8;
inline constexpr int64_t kVectorInts = TVQ_VNNI_BITS / 32;

TVQ_VNNI_TARGET inline Ints AddDot(Ints sum, Bytes unsigned_bytes, Bytes signed_bytes) {
#if TVQ_VNNI_BITS == 512
  return (Ints)_mm512_dpbusd_epi32((__m512i)sum, unsigned_bytes, signed_bytes);
#else
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, unsigned_bytes, signed_bytes);
#endif
}

TVQ_VNNI_TARGET inline Bytes LoadBytes(const void* from) {
#if TVQ_VNNI_BITS == 512
  return _mm512_loadu_si512(from);
#else
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
#endif
}

TVQ_VNNI_TARGET inline Bytes Broadcast(const void* four) {
  int word;
  std::memcpy(&word, four, sizeof(word));
  return TVQ_MM(set1_epi32)(word);
}

}  // namespace tvq::TVQ_VNNI_NAMESPACE

#endif  // TVQ_KERNELS_CPU_VNNI_INL_H_
