// Reads tensors and moves them to the device; the first error sticks and later calls do nothing, so
// that loading reads as a list of tensors.
#ifndef TVQ_MODELS_RUNTIME_STACK_WEIGHT_LOADER_H_
#define TVQ_MODELS_RUNTIME_STACK_WEIGHT_LOADER_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/linear.h"
#include "models/runtime/load_options.h"
#include "models/runtime/weights.h"

namespace tvq {

// A matrix of the checkpoint where it lies in host memory, checked. Valid as long as the source of
// its values.
struct MatrixValues {
  HostMatrix stored;              // without scales
  DType dtype = DType::kFloat32;  // on the device
  std::vector<float> scales;      // of a matrix that is int8 here or there

  HostMatrix View() const;
};

// A vector of `size` that WeightLoader::Upload moved.
inline Vector<const float> VectorOf(const Buffer& uploaded, int64_t size) {
  return {uploaded.as<const float>(), {size}};
}

class WeightLoader {
 public:
  WeightLoader(WeightSource& source, const LoadOptions& options)
      : source_(source), device_(*options.device), dtype_(options.dtype) {}

  const absl::Status& status() const { return status_; }
  int64_t parameters() const { return parameters_; }
  int64_t bytes() const { return bytes_; }
  double rounding() const { return rounding_; }  // see ModelInfo
  DType dtype() const { return dtype_; }

  // The tensor as finite float32 in host memory; empty after an error.
  std::vector<float> Read(const std::string& name, std::vector<int64_t> shape);

  // A matrix [rows, width] of finite values that fit what it becomes.
  MatrixValues ReadMatrix(const std::string& name, int64_t rows, int64_t width);
  // The same of the embedding or the logits, which are int8 beside int4: more than half of what
  // four bits cost is theirs (docs/model-format.md).
  MatrixValues ReadVocabularyMatrix(const std::string& name, int64_t rows, int64_t width);

  Buffer Upload(const std::vector<float>& values);

  // As its dtype, not int4; float32 rounded to nearest even.
  Buffer UploadMatrix(const MatrixValues& matrix);

  // One weight of matrices below one another.
  LinearWeight Pack(std::initializer_list<const MatrixValues*> matrices);
  LinearWeight Pack(std::span<const HostMatrix> parts, DType dtype);

  // `half_norms` [P, S]: what assigning takes off the keys' scores; empty: |key|^2 / 2.
  HeadKeys PackKeys(const std::vector<float>& keys, std::array<int64_t, 3> shape,
                    const std::vector<float>& half_norms = {});

  // y [rows, out] = x W^T on the device, in float32, back in host memory.
  std::vector<float> Project(const std::vector<float>& x, int64_t rows, const HostMatrix& matrix);

  // Empty, so that functions that return a tensor can return this.
  std::vector<float> Fail(absl::Status status);

 private:
  MatrixValues ReadMatrixAs(DType dtype, const std::string& name, int64_t rows, int64_t width);
  absl::StatusOr<MatrixValues> Locate(const std::string& name, int64_t rows, int64_t width);
  // Finds a matrix's scales and what rounding changes; an error where values cannot be rounded.
  absl::Status Survey(const std::string& name, MatrixValues& matrix);
  // Names the first value that is not finite or does not fit, if there is one.
  absl::Status CheckValues(const std::string& name, std::span<const float> values,
                           DType dtype) const;
  template <typename T>
  Buffer UploadRows(const HostMatrix& matrix);
  Buffer UploadBytes(const void* data, size_t size);
  WeightSource& source_;
  Device& device_;
  const DType dtype_;
  absl::Status status_;
  int64_t parameters_ = 0;
  int64_t bytes_ = 0;
  double rounding_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_WEIGHT_LOADER_H_
