#include "models/runtime/stack/weight_loader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/int4.h"
#include "kernels/numbers/quantize.h"
#include "models/runtime/int8_tensor.h"
#include "models/runtime/matrix_survey.h"

namespace tvq {

namespace {

// A float32 near the largest one rounds to an infinite bfloat16, and int4 has a smaller limit
// (kernels/numbers/int4.h).
bool Fits(float value, DType dtype) {
  if (dtype == DType::kBFloat16) return std::isfinite(ToFloat(ToBFloat16(value)));
  return dtype == DType::kInt4 ? std::abs(value) <= kInt4Largest : std::isfinite(value);
}

absl::Status Named(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

}  // namespace

HostMatrix MatrixValues::View() const {
  HostMatrix view = stored;
  if (!scales.empty()) view.scales = scales.data();
  return view;
}

HostMatrix CopyRows(const MatrixValues& matrix, int64_t row, int64_t count,
                    std::vector<std::vector<float>>& owner) {
  const HostMatrix whole = matrix.View();
  std::vector<float>& values = owner.emplace_back(static_cast<size_t>(count * whole.in));
  for (int64_t i = 0; i < count; ++i) {
    ReadValues(whole, row + i, 0, whole.in, values.data() + i * whole.in);
  }
  return {.data = values.data(),
          .out = count,
          .in = whole.in,
          .scales = whole.scales == nullptr ? nullptr : whole.scales + row};
}

std::vector<float> WeightLoader::Fail(absl::Status status) {
  status_.Update(std::move(status));
  return {};
}

std::vector<float> WeightLoader::Read(const std::string& name, std::vector<int64_t> shape) {
  if (!status_.ok()) return {};
  const absl::StatusOr<HostTensor> tensor = source_.Get(name, shape);
  if (!tensor.ok()) return Fail(tensor.status());
  absl::StatusOr<std::vector<float>> values = ToFloat32(*tensor);
  if (!values.ok()) return Fail(Named(name, values.status()));
  // In an int8 or int4 model only matrices are quantized, and Survey checks those.
  if (absl::Status s =
          CheckValues(name, *values, dtype_ == DType::kInt4 ? DType::kFloat32 : dtype_);
      !s.ok()) {
    return Fail(s);
  }
  parameters_ += static_cast<int64_t>(values->size());
  return *std::move(values);
}

std::vector<float> WeightLoader::ReadGain(const std::string& name, int64_t width, float offset) {
  std::vector<float> gain = Read(name, {width});
  for (float& number : gain) number += offset;
  return gain;
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
  if (!status_.ok()) return {};
  absl::StatusOr<MatrixValues> matrix = Locate(name, rows, width);
  if (!matrix.ok()) {
    Fail(matrix.status());
    return {};
  }
  matrix->dtype = dtype;
  status_.Update(Survey(name, *matrix));
  parameters_ += rows * width;
  return *std::move(matrix);
}

absl::StatusOr<MatrixValues> WeightLoader::Locate(const std::string& name, int64_t rows,
                                                  int64_t width) {
  MatrixValues matrix;
  const absl::StatusOr<HostTensor> tensor = source_.Get(name, std::array{rows, width});
  if (!tensor.ok()) return tensor.status();
  if (tensor->dtype == HostDType::kI8) {
    auto scales = ReadInt8Scales(source_, name, *tensor, dtype_ == DType::kBFloat16);
    if (!scales.ok()) return scales.status();
    matrix.scales = *std::move(scales);
    matrix.stored = {.data = tensor->data, .dtype = DType::kInt8};
  } else {
    absl::StatusOr<HostMatrix> values = AsRow(*tensor);
    if (!values.ok()) return Named(name, values.status());
    matrix.stored = *values;
  }
  matrix.stored.out = rows;
  matrix.stored.in = width;
  return matrix;
}

absl::Status WeightLoader::Survey(const std::string& name, MatrixValues& matrix) {
  MatrixSurvey survey = SurveyMatrix(device_, matrix.View(), matrix.dtype);
  if (!Fits(survey.largest, matrix.dtype)) {
    std::vector<float> values(static_cast<size_t>(matrix.stored.out * matrix.stored.in));
    const HostMatrix view = matrix.View();
    for (int64_t row = 0; row < view.out; ++row) {
      ReadValues(view, row, 0, view.in, values.data() + row * view.in);
    }
    return CheckValues(name, values, matrix.dtype);
  }
  rounding_ = std::max(rounding_, survey.rounding.Relative());
  if (matrix.dtype == DType::kInt8) matrix.scales = std::move(survey.scales);
  return absl::OkStatus();
}

absl::Status WeightLoader::CheckValues(const std::string& name, std::span<const float> values,
                                       DType dtype) const {
  if (absl::Status s = tvq::CheckFinite(name, values); !s.ok()) {
    return absl::Status(s.code(), absl::StrCat(source_.Where(name), ": ", s.message()));
  }
  // First all values at once, by vector instructions; only on failure a search for the wrong one.
  if (Fits(LargestMagnitude(values), dtype)) return absl::OkStatus();
  const auto wrong = std::find_if_not(values.begin(), values.end(),
                                      [dtype](float value) { return Fits(value, dtype); });
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

template <typename T>
Buffer WeightLoader::UploadRows(const HostMatrix& matrix) {
  constexpr int64_t kTaskValues = 1 << 16;  // few enough for the second-level cache
  const int64_t task_rows = std::max<int64_t>(1, kTaskValues / matrix.in);
  const auto row_bytes = static_cast<size_t>(matrix.in) * sizeof(T);
  absl::StatusOr<Buffer> buffer = device_.Allocate(static_cast<size_t>(matrix.out) * row_bytes);
  if (!buffer.ok()) {
    Fail(buffer.status());
    return {};
  }
  std::vector<absl::Status> copied(static_cast<size_t>((matrix.out + task_rows - 1) / task_rows));
  device_.RunOnHost(std::ssize(copied), [&](int64_t task) {
    const int64_t first = task * task_rows, count = std::min(task_rows, matrix.out - first);
    std::vector<T> rows(static_cast<size_t>(count * matrix.in));
    for (int64_t i = 0; i < count; ++i) {
      ReadValues(matrix, first + i, 0, matrix.in, rows.data() + i * matrix.in);
    }
    copied[static_cast<size_t>(task)] =
        device_.CopyFromHost(buffer->as<std::byte>() + first * static_cast<int64_t>(row_bytes),
                             rows.data(), rows.size() * sizeof(T));
  });
  for (const absl::Status& status : copied) status_.Update(status);
  bytes_ += static_cast<int64_t>(buffer->bytes());
  return *std::move(buffer);
}

Buffer WeightLoader::UploadMatrix(const MatrixValues& matrix) {
  if (!status_.ok()) return {};
  if (matrix.dtype == DType::kInt8) return UploadRows<int8_t>(matrix.View());
  if (matrix.dtype == DType::kBFloat16) return UploadRows<BFloat16>(matrix.View());
  return UploadRows<float>(matrix.View());
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

HeadKeys WeightLoader::PackKeys(const std::vector<float>& keys, std::array<int64_t, 3> shape,
                                const std::vector<float>& half_norms) {
  if (!status_.ok()) return {};
  HeadKeys packed;
  status_.Update(PackHeadKeys(device_, {{keys.data(), shape}, &packed}));
  if (!half_norms.empty() && status_.ok()) {
    status_.Update(device_.CopyFromHost(packed.half_norm.data(), half_norms.data(),
                                        half_norms.size() * sizeof(float)));
  }
  bytes_ += static_cast<int64_t>(packed.data.bytes() + packed.half_norm.bytes());
  return packed;
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

}  // namespace tvq
