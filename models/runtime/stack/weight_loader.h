// Reads tensors and moves them to the device. After the first error later calls do nothing, so that
// code that loads can be a plain list of tensors.
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

// A matrix of the checkpoint, checked, and not copied: it lies in the memory of its source and is
// valid as long as the source.
struct MatrixValues {
  HostMatrix stored;              // without scales
  DType dtype = DType::kFloat32;  // on the device
  std::vector<float> scales;      // if the matrix is int8, stored or on the device

  HostMatrix View() const;
};

// Rows [row, row + count) of a matrix, copied to `owner`, which must outlive what
// is returned.
HostMatrix CopyRows(const MatrixValues& matrix, int64_t row, int64_t count,
                    std::vector<std::vector<float>>& owner);

// A vector of `size` numbers in a buffer that WeightLoader::Upload returned.
inline Vector<const float> VectorOf(const Buffer& uploaded, int64_t size) {
  return {uploaded.as<const float>(), {size}};
}

// The same, or no vector if nothing was uploaded.
inline Vector<const float> OptionalVector(const Buffer& uploaded, int64_t size) {
  return uploaded.bytes() > 0 ? VectorOf(uploaded, size) : Vector<const float>();
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

  bool Has(const std::string& name) const { return source_.Has(name); }

  // The tensor as finite float32 in host memory; empty after an error.
  std::vector<float> Read(const std::string& name, std::vector<int64_t> shape);

  // The gain [width] of a norm, with `offset` added to each number.
  std::vector<float> ReadGain(const std::string& name, int64_t width, float offset);

  // A matrix [rows, width] of finite values that fit the dtype it will have.
  MatrixValues ReadMatrix(const std::string& name, int64_t rows, int64_t width);
  // The same for the embedding or the logits, which are int8 in an int4 model: in four bits they
  // would cause more than half of the loss (docs/model-format.md).
  MatrixValues ReadVocabularyMatrix(const std::string& name, int64_t rows, int64_t width);

  Buffer Upload(const std::vector<float>& values);

  // Uploads the matrix in its dtype, which is not int4. Float32 values are rounded to nearest even.
  Buffer UploadMatrix(const MatrixValues& matrix);

  // Packs matrices of equal width into one weight, the rows of one below those of the other.
  LinearWeight Pack(std::initializer_list<const MatrixValues*> matrices);
  LinearWeight Pack(std::span<const HostMatrix> parts, DType dtype);

  // `half_norms` [P, S]: what is subtracted from the keys' scores when codes are assigned; empty:
  // |key|^2 / 2.
  HeadKeys PackKeys(const std::vector<float>& keys, std::array<int64_t, 3> shape,
                    const std::vector<float>& half_norms = {});

  // Computes y [rows, out] = x W^T on the device in float32, and returns it in host memory.
  std::vector<float> Project(const std::vector<float>& x, int64_t rows, const HostMatrix& matrix);

  // Records the error. Returns an empty vector, so that a function that reads a tensor can return
  // Fail(...).
  std::vector<float> Fail(absl::Status status);

 private:
  MatrixValues ReadMatrixAs(DType dtype, const std::string& name, int64_t rows, int64_t width);
  absl::StatusOr<MatrixValues> Locate(const std::string& name, int64_t rows, int64_t width);
  // Finds a matrix's scales and the error of its rounding; an error if values cannot be rounded.
  absl::Status Survey(const std::string& name, MatrixValues& matrix);
  // An error that names the first value that is not finite or does not fit `dtype`.
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
