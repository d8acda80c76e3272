// Sums of a group of rows by AVX-VNNI.
#include <cstdlib>

#include "kernels/cpu/vq_attention/copy_sums.h"

#if defined(__x86_64__)

#define TVQ_VNNI_BITS 256
#include "kernels/cpu/vq_attention/copy_sums_vnni-inl.h"

namespace tvq {

void AddCopyGroupDot256(const CopyGroup& group) { avx_vnni::AddGroup(group); }

}  // namespace tvq

#else

namespace tvq {

void AddCopyGroupDot256(const CopyGroup&) { std::abort(); }

}  // namespace tvq

#endif
