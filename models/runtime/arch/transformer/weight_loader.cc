#include "models/runtime/arch/transformer/weight_loader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/int4.h"
#include "kernels/int8.h"
#include "kernels/quantize.h"

namespace tvq::transformer {

HostMatrix MatrixValues::View() const {
  if (!values.empty()) return {values.data(), rows, width};
  return {nullptr, rows, width, quantized.values.data(), quantized.scales.data()};
}

std::vector<float> WeightLoader::Fail(absl::Status status) {
  status_.Update(std::move(status));
  return {};
}

std::vector<float> WeightLoader::Read(const std::string& name, std::vector<int64_t> shape) {
  if (!status_.ok()) return {};
  absl::StatusOr<HostTensor> tensor = source_.Get(name, shape);
  if (!tensor.ok()) return Fail(tensor.status());
  return Convert(name, *tensor);
}

MatrixValues WeightLoader::ReadMatrix(const std::string& name, int64_t rows, int64_t width) {
  return ReadMatrixAs(dtype_, name, rows, width);
}

MatrixValues WeightLoader::ReadVocabularyMatrix(const std::string& name, int64_t rows,
                                                int64_t width) {
  return ReadMatrixAs(dtype_ == DType::kInt4 ? DType::kInt8 : dtype_, name, rows, width);
}

MatrixValues WeightLoader::ReadMatrixAs(DType dtype, const std::string& name, int64_t rows,
                                        int64_t width) {
  MatrixValues matrix{rows, width, dtype, {}, {}};
  if (!status_.ok()) return matrix;
  const absl::StatusOr<HostTensor> tensor = source_.Get(name, std::array{rows, width});
  if (!tensor.ok()) {
    Fail(tensor.status());
  } else if (tensor->dtype != HostDType::kI8) {
    matrix.values = Convert(name, *tensor);
  } else if (auto stored = ReadInt8(source_, name, *tensor, dtype_ == DType::kBFloat16);
             !stored.ok()) {
    Fail(stored.status());
  } else {
    matrix.quantized = *std::move(stored);
    parameters_ += rows * width;
  }
  if (status_.ok()) Quantize(name, matrix);
  return matrix;
}

void WeightLoader::Quantize(const std::string& name, MatrixValues& matrix) {
  Int8Matrix& q = matrix.quantized;
  if (matrix.dtype == DType::kInt8) {
    if (!matrix.values.empty()) {
      q = QuantizeRows(matrix.values.data(), matrix.rows, matrix.width);
      matrix.values.clear();
    }
    rounding_ = std::max(rounding_, Int8Rounding(q));
  } else if (matrix.dtype == DType::kInt4) {
    if (matrix.values.empty()) {
      matrix.values = DequantizeRows(q.values.data(), q.scales.data(), matrix.rows, matrix.width);
      q = {};
    }
    if (absl::Status s = CheckFits(name, matrix.values, DType::kInt4); !s.ok()) Fail(s);
    rounding_ = std::max(rounding_, Int4Rounding(matrix.values, matrix.width));
  }
}

std::vector<float> WeightLoader::Convert(const std::string& name, const HostTensor& tensor) {
  absl::StatusOr<std::vector<float>> values = ToFloat32(tensor);
  if (!values.ok()) {
    return Fail(
        absl::Status(values.status().code(), absl::StrCat(name, ": ", values.status().message())));
  }
  if (absl::Status s = CheckFinite(name, *values); !s.ok()) {
    return Fail(absl::Status(s.code(), absl::StrCat(source_.Where(name), ": ", s.message())));
  }
  // Of an int4 model not all matrices are int4: Quantize checks those that are.
  const DType fits = dtype_ == DType::kInt4 ? DType::kFloat32 : dtype_;
  if (absl::Status s = CheckFits(name, *values, fits); !s.ok()) return Fail(s);
  parameters_ += static_cast<int64_t>(values->size());
  return *std::move(values);
}

absl::Status WeightLoader::CheckFits(const std::string& name, const std::vector<float>& values,
                                     DType dtype) {
  const auto fits = [dtype](float value) {
    if (dtype == DType::kBFloat16) return std::isfinite(ToFloat(ToBFloat16(value)));
    return dtype != DType::kInt4 || std::abs(value) <= kInt4Largest;
  };
  // All at once, which vector instructions do; then who it is.
  if (fits(LargestMagnitude(values))) return absl::OkStatus();
  const auto wrong = std::find_if_not(values.begin(), values.end(), fits);
  return absl::InvalidArgumentError(absl::StrCat(name, "[", wrong - values.begin(), "] is ", *wrong,
                                                 ", too large for ", Name(dtype),
                                                 "; load as float32"));
}

Buffer WeightLoader::UploadBytes(const void* data, size_t size) {
  if (!status_.ok()) return {};
  absl::StatusOr<Buffer> buffer = device_.Allocate(size);
  if (!buffer.ok()) {
    Fail(buffer.status());
    return {};
  }
  status_.Update(device_.CopyFromHost(buffer->data(), data, size));
  bytes_ += static_cast<int64_t>(size);
  return *std::move(buffer);
}

Buffer WeightLoader::Upload(const std::vector<float>& values) {
  return UploadBytes(values.data(), values.size() * sizeof(float));
}

Buffer WeightLoader::UploadMatrix(const MatrixValues& matrix) {
  if (!status_.ok()) return {};
  const Int8Matrix& q = matrix.quantized;
  if (matrix.dtype == DType::kInt8) return UploadBytes(q.values.data(), q.values.size());
  const std::vector<float> values =
      matrix.values.empty()
          ? DequantizeRows(q.values.data(), q.scales.data(), matrix.rows, matrix.width)
          : matrix.values;
  if (matrix.dtype == DType::kFloat32) return Upload(values);
  std::vector<BFloat16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), ToBFloat16);
  return UploadBytes(rounded.data(), rounded.size() * sizeof(BFloat16));
}

LinearWeight WeightLoader::Pack(std::span<const HostMatrix> parts, DType dtype) {
  if (!status_.ok()) return {};
  absl::StatusOr<LinearWeight> weight = PackLinear(device_, parts, dtype);
  if (!weight.ok()) {
    Fail(weight.status());
    return {};
  }
  bytes_ += weight->bytes();
  return *std::move(weight);
}

LinearWeight WeightLoader::Pack(std::initializer_list<const MatrixValues*> matrices) {
  std::vector<HostMatrix> parts;
  for (const MatrixValues* matrix : matrices) parts.push_back(matrix->View());
  return Pack(parts, (*matrices.begin())->dtype);
}

HeadKeys WeightLoader::PackKeys(const std::vector<float>& keys, std::array<int64_t, 3> shape) {
  if (!status_.ok()) return {};
  absl::StatusOr<HeadKeys> packed = PackHeadKeys(device_, {keys.data(), shape});
  if (!packed.ok()) {
    Fail(packed.status());
    return {};
  }
  bytes_ += static_cast<int64_t>(packed->data.bytes() + packed->half_norm.bytes());
  return *std::move(packed);
}

std::vector<float> WeightLoader::Project(const std::vector<float>& x, int64_t rows,
                                         const HostMatrix& matrix) {
  LinearWeight weight = Pack({&matrix, 1}, DType::kFloat32);
  bytes_ -= weight.bytes();
  Buffer input = UploadBytes(x.data(), x.size() * sizeof(float));
  if (!status_.ok()) return {};
  std::vector<float> y(static_cast<size_t>(rows * matrix.out));
  absl::StatusOr<Buffer> output = device_.Allocate(y.size() * sizeof(float));
  if (!output.ok()) return Fail(output.status());
  LinearArgs args;
  args.x = {input.as<const float>(), {rows, matrix.in}};
  args.weight = &weight;
  args.y = {output->as<float>(), {rows, matrix.out}};
  status_.Update(Linear(device_, args));
  status_.Update(device_.CopyToHost(y.data(), output->data(), y.size() * sizeof(float)));
  bytes_ -= static_cast<int64_t>(input.bytes());
  return y;
}

}  // namespace tvq::transformer
