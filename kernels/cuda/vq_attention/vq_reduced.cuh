// What the two kernels of one form of decode share: it reads the int8 copy of a state's rows, or
// leaves rows out, or both (kernels/ops/attention/vq_attention.h). One kernel chooses rows
// (vq_choose_rows.cu), the other reads them (vq_read_rows.cu).
#ifndef TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_REDUCED_CUH_
#define TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_REDUCED_CUH_

#include "kernels/cuda/vq_attention/vq_decode.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {

struct VqReduced {
  VqDecode decode;  // weights: what a row as it is read is multiplied with
  float* shares;    // [N, H, S + W] of the softmax; for the copy they are the weights
  float skip_mass;
  float* threshold;     // [N, H] the head needs no smaller shares
  uint8_t* kept;        // [N, G, S + W] whether a row is read
  int32_t* list;        // [N, G, S + W] the rows that are read, in order
  int32_t* length;      // [N, G] of the list
  float* skipped_mass;  // [N, H], or null
  int32_t* row_reads;   // [N, G, 2], or null

  __host__ __device__ int64_t KvHeads() const { return decode.shape.kv_heads; }
  __host__ __device__ int64_t SharedBy() const { return decode.heads / KvHeads(); }
};

// In `decode` what the caller gave is set; the memory of intermediates is not.
inline VqReduced MakeReduced(const VqDecodeAttentionArgs& args, const VqDecode& decode) {
  return {.decode = decode,
          .skip_mass = args.skip_mass,
          .skipped_mass = args.skipped_mass.data,
          .row_reads = args.row_reads.data};
}

// Appends the positions' values to their states, and computes weights, denominators, and the list
// of the rows that each session and key/value head needs.
absl::Status ChooseVqRows(Device& device, const VqReduced& args, int64_t sessions);

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_REDUCED_CUH_
