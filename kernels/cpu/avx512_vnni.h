// VPDPBUSD on 512 bits, which multiplies four unsigned bytes with four signed ones and adds the
// products to an int32. Of files for x86-64 alone.
#ifndef TVQ_KERNELS_CPU_AVX512_VNNI_H_
#define TVQ_KERNELS_CPU_AVX512_VNNI_H_

#include <immintrin.h>

#include <cstring>

#define TVQ_VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace tvq {

// Vectors of int32 by that name: as __m512i, which are int64, g++ 12 copies accumulators to and
// fro.
using VnniInts = int __attribute__((vector_size(64)));

TVQ_VNNI_TARGET inline VnniInts AddDot(VnniInts sum, __m512i unsigned_bytes, __m512i signed_bytes) {
  return (VnniInts)_mm512_dpbusd_epi32((__m512i)sum, unsigned_bytes, signed_bytes);
}

// Four bytes, or an int32, sixteen times.
TVQ_VNNI_TARGET inline __m512i BroadcastFour(const char* four) {
  int word;
  std::memcpy(&word, four, sizeof(word));
  return _mm512_set1_epi32(word);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_AVX512_VNNI_H_
