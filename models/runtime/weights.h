#ifndef TVQ_MODELS_RUNTIME_WEIGHTS_H_
#define TVQ_MODELS_RUNTIME_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/host/host_tasks.h"
#include "kernels/numbers/host_matrix.h"
#include "models/runtime/host_tensor.h"

namespace tvq {

// Named weights in host memory. Get may be called from several threads.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // The tensor, if it has exactly this shape. NOT_FOUND if there is no tensor of this name,
  // INVALID_ARGUMENT if the shape differs, DATA_LOSS if its bytes do not have the checksum that the
  // file gives for it; all messages name tensor and file. The data live as long as the source.
  virtual absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) = 0;

  virtual bool Has(std::string_view name) const = 0;

  // The names of the tensors that no call of Get has read, in order. Must not run while other
  // threads call Get.
  virtual std::vector<std::string> Unread() const { return {}; }

  // 32 hexadecimal digits, a hash of name, dtype, shape and bytes of every tensor, in the order of
  // names: the same however the tensors are spread over files. Reads all tensors.
  virtual std::string Digest() const = 0;

  // For messages: the file and the byte at which the tensor's data begin; empty where there is no
  // file.
  virtual std::string Where(std::string_view) const { return {}; }
};

// DIR/model.safetensors, or the shards that DIR/model.safetensors.index.json names. Shards must lie
// directly in DIR and hold the tensors that the index assigns to them; other tensors in them are
// ignored. `tasks` runs work that threads can share.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& dir,
                                                          HostTasks tasks = OneByOne);

// A tensor of F32, BF16, F16 or F64, of any shape, as a matrix of one row, without a copy.
// INVALID_ARGUMENT for other dtypes.
absl::StatusOr<HostMatrix> AsRow(const HostTensor& tensor);

// All values of a tensor as float32. Does not check that they are finite. Errors as AsRow.
absl::StatusOr<std::vector<float>> ToFloat32(const HostTensor& tensor);

// INVALID_ARGUMENT naming the tensor and the index of the first NaN or infinity.
absl::Status CheckFinite(std::string_view name, std::span<const float> values);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_WEIGHTS_H_
