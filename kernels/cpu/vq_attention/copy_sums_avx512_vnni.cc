// Sums of a group of rows by AVX512-VNNI.
#include <cstdlib>

#include "kernels/cpu/vq_attention/copy_sums.h"

#if defined(__x86_64__)

#define TVQ_VNNI_BITS 512
#include "kernels/cpu/vq_attention/copy_sums_vnni-inl.h"

namespace tvq {

void AddCopyGroupDot(const CopyGroup& group) { avx512_vnni::AddGroup(group); }

}  // namespace tvq

#else

namespace tvq {

void AddCopyGroupDot(const CopyGroup&) { std::abort(); }

}  // namespace tvq

#endif
