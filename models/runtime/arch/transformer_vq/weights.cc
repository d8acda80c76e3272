#include "models/runtime/arch/transformer_vq/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/int8.h"
#include "models/runtime/int8_tensor.h"

namespace tvq::transformer_vq {
namespace {

// A matrix of the checkpoint in host memory: float32, or int8 with a scale for each row.
struct MatrixValues {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<float> values;
  Int8Matrix quantized;  // where `values` is empty

  HostMatrix View() const {
    if (!values.empty()) return {values.data(), rows, width};
    return {nullptr, rows, width, quantized.values.data(), quantized.scales.data()};
  }
};

// Reads tensors and moves them to the device; the first error sticks and later calls do nothing, so
// that loading reads as a list of tensors.
class Loader {
 public:
  Loader(WeightSource& source, const LoadOptions& options)
      : source_(source), device_(*options.device), dtype_(options.dtype) {}

  const absl::Status& status() const { return status_; }
  int64_t parameters() const { return parameters_; }
  int64_t bytes() const { return bytes_; }

  // The tensor as finite float32 in host memory; empty after an error.
  std::vector<float> Read(const std::string& name, std::vector<int64_t> shape) {
    if (!status_.ok()) return {};
    absl::StatusOr<HostTensor> tensor = source_.Get(name, shape);
    if (!tensor.ok()) return Fail(tensor.status());
    return Convert(name, *tensor);
  }

  // A matrix [rows, width] in the form that packing takes: quantized where it is stored so or
  // `dtype_` says so, float32 otherwise.
  MatrixValues ReadMatrix(const std::string& name, int64_t rows, int64_t width) {
    MatrixValues matrix{rows, width, {}, {}};
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
    if (dtype_ == DType::kInt8 && status_.ok()) {
      if (!matrix.values.empty()) {
        matrix.quantized = QuantizeRows(matrix.values.data(), rows, width);
        matrix.values.clear();
      }
      rounding_ = std::max(rounding_, Int8Rounding(matrix.quantized));
    }
    return matrix;
  }

  double rounding() const { return rounding_; }

  // A finite float32 next to the largest rounds to an infinite bfloat16.
  absl::Status CheckFits(const std::string& name, const std::vector<float>& values) const {
    if (dtype_ != DType::kBFloat16) return absl::OkStatus();
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isinf(ToFloat(ToBFloat16(values[i])))) {
        return absl::InvalidArgumentError(absl::StrCat(
            name, "[", i, "] is ", values[i], ", too large for bfloat16; load as float32"));
      }
    }
    return absl::OkStatus();
  }

  Buffer Upload(const std::vector<float>& values) {
    return UploadBytes(values.data(), values.size() * sizeof(float));
  }

  // As `dtype_`, float32 rounded to nearest even.
  Buffer UploadMatrix(const MatrixValues& matrix) {
    if (!status_.ok()) return {};
    const Int8Matrix& q = matrix.quantized;
    if (dtype_ == DType::kInt8) return UploadBytes(q.values.data(), q.values.size());
    const std::vector<float> values =
        matrix.values.empty()
            ? DequantizeRows(q.values.data(), q.scales.data(), matrix.rows, matrix.width)
            : matrix.values;
    if (dtype_ == DType::kFloat32) return Upload(values);
    std::vector<BFloat16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), ToBFloat16);
    return UploadBytes(rounded.data(), rounded.size() * sizeof(BFloat16));
  }

  LinearWeight Pack(const std::vector<HostMatrix>& parts, DType dtype) {
    if (!status_.ok()) return {};
    absl::StatusOr<LinearWeight> weight = PackLinear(device_, parts, dtype);
    if (!weight.ok()) {
      Fail(weight.status());
      return {};
    }
    bytes_ += weight->bytes();
    return *std::move(weight);
  }
  LinearWeight Pack(std::initializer_list<const MatrixValues*> matrices) {
    std::vector<HostMatrix> parts;
    for (const MatrixValues* matrix : matrices) parts.push_back(matrix->View());
    return Pack(parts, dtype_);
  }

  HeadKeys PackKeys(const std::vector<float>& keys, std::array<int64_t, 3> shape) {
    if (!status_.ok()) return {};
    absl::StatusOr<HeadKeys> packed = PackHeadKeys(device_, {keys.data(), shape});
    if (!packed.ok()) {
      Fail(packed.status());
      return {};
    }
    bytes_ += static_cast<int64_t>(packed->data.bytes() + packed->half_norm.bytes());
    return *std::move(packed);
  }

  // y [rows, out] = x W^T on the device, in float32, back in host memory.
  std::vector<float> Project(const std::vector<float>& x, int64_t rows, const HostMatrix& matrix) {
    LinearWeight weight = Pack(std::vector<HostMatrix>{matrix}, DType::kFloat32);
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

  std::vector<float> Fail(absl::Status status) {
    status_.Update(std::move(status));
    return {};
  }

 private:
  Buffer UploadBytes(const void* data, size_t size) {
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

  // As finite float32 that fit `dtype_`.
  std::vector<float> Convert(const std::string& name, const HostTensor& tensor) {
    absl::StatusOr<std::vector<float>> values = ToFloat32(tensor);
    if (!values.ok()) {
      return Fail(absl::Status(values.status().code(),
                               absl::StrCat(name, ": ", values.status().message())));
    }
    if (absl::Status s = CheckFinite(name, *values); !s.ok()) {
      return Fail(absl::Status(s.code(), absl::StrCat(source_.Where(name), ": ", s.message())));
    }
    if (absl::Status s = CheckFits(name, *values); !s.ok()) return Fail(s);
    parameters_ += static_cast<int64_t>(values->size());
    return *std::move(values);
  }

  WeightSource& source_;
  Device& device_;
  const DType dtype_;
  absl::Status status_;
  int64_t parameters_ = 0;
  int64_t bytes_ = 0;
  double rounding_ = 0;
};

// sinusoid(d) for d = 0..rows-1: [sin(d / lam^(2c/D)) | cos(...)], row-major [rows, D].
std::vector<float> Sinusoids(int64_t rows, int64_t width, double lam) {
  const int64_t half = width / 2;
  std::vector<float> table(static_cast<size_t>(rows * width));
  for (int64_t c = 0; c < half; ++c) {
    const double inverse =
        std::pow(lam, -2.0 * static_cast<double>(c) / static_cast<double>(width));
    for (int64_t d = 0; d < rows; ++d) {
      const double angle = static_cast<double>(d) * inverse;
      table[static_cast<size_t>(d * width + c)] = static_cast<float>(std::sin(angle));
      table[static_cast<size_t>(d * width + half + c)] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

void Scale(std::vector<float>& values, float factor) {
  for (float& v : values) v *= factor;
}

// C = c_sum / max(c_count, 0.01), row by row.
absl::Status DivideByCounts(const std::string& name, const std::vector<float>& counts,
                            int64_t width, std::vector<float>& sums) {
  for (size_t row = 0; row < counts.size(); ++row) {
    if (counts[row] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "[", row, "] is ", counts[row], ", must not be negative"));
    }
    const float divisor = std::max(counts[row], 0.01F);
    float* sum = sums.data() + row * static_cast<size_t>(width);
    for (int64_t i = 0; i < width; ++i) sum[i] /= divisor;
  }
  return CheckFinite(absl::StrCat(name, " (the codebook, sums over counts)"), sums);
}

// R_d = (sinusoid(d) Wr) * t, turned from [M+1, H*K] to [H, M+1, K].
std::vector<float> PositionKeys(const VqConfig& c, Loader& loader, const std::vector<float>& wr,
                                const std::vector<float>& sinusoids, float t) {
  if (!loader.status().ok()) return {};
  const std::vector<float> flat =
      loader.Project(sinusoids, c.window(), {wr.data(), c.n_head * c.d_k, c.d_model});
  std::vector<float> keys(flat.size());
  if (flat.empty()) return keys;
  for (int64_t h = 0; h < c.n_head; ++h) {
    for (int64_t d = 0; d < c.window(); ++d) {
      const float* from = flat.data() + (d * c.n_head + h) * c.d_k;
      float* to = keys.data() + (h * c.window() + d) * c.d_k;
      for (int64_t i = 0; i < c.d_k; ++i) to[i] = from[i] * t;
    }
  }
  return keys;
}

LayerWeights LoadLayer(const VqConfig& c, int64_t index, const std::vector<float>& sinusoids,
                       Loader& loader) {
  const std::string p = absl::StrCat("layers.", index, ".");
  const int64_t d = c.d_model, qk = c.n_head * c.d_k, kk = c.n_kv_head * c.d_k;
  const int64_t vv = c.n_kv_head * c.d_v, gv = c.n_head * c.d_v;
  const float t = static_cast<float>(std::pow(static_cast<double>(c.d_k), -0.25));

  LayerWeights layer;
  layer.norm_gain = loader.Upload(loader.Read(p + "norm.weight", {d}));
  layer.norm_bias = loader.Upload(loader.Read(p + "norm.bias", {d}));
  const MatrixValues wq = loader.ReadMatrix(p + "q_proj.weight", qk, d);
  const MatrixValues wk = loader.ReadMatrix(p + "k_proj.weight", kk, d);
  const MatrixValues wv = loader.ReadMatrix(p + "v_proj.weight", vv, d);
  const MatrixValues wg = loader.ReadMatrix(p + "g_proj.weight", gv, d);
  layer.qkvg = loader.Pack({&wq, &wk, &wv, &wg});
  const MatrixValues wo = loader.ReadMatrix(p + "o_proj.weight", d, gv);
  layer.out = loader.Pack({&wo});

  std::vector<float> u = loader.Read(p + "u", {c.n_head, c.d_k});
  std::vector<float> w = loader.Read(p + "w", {c.n_head, c.d_k});
  Scale(u, t);
  Scale(w, t);
  layer.u = loader.Upload(u);
  layer.w = loader.Upload(w);

  const std::vector<float> wr = loader.Read(p + "r_proj.weight", {qk, d});
  layer.positions =
      loader.PackKeys(PositionKeys(c, loader, wr, sinusoids, t), {c.n_head, c.window(), c.d_k});

  std::vector<float> codebook = loader.Read(p + "codebook.sum", {c.n_kv_head, c.n_code, c.d_k});
  const std::string count_name = p + "codebook.count";
  const std::vector<float> counts = loader.Read(count_name, {c.n_kv_head, c.n_code});
  if (loader.status().ok()) loader.Fail(DivideByCounts(count_name, counts, c.d_k, codebook));
  layer.codebook = loader.PackKeys(codebook, {c.n_kv_head, c.n_code, c.d_k});
  return layer;
}

}  // namespace

absl::StatusOr<Weights> LoadWeights(const VqConfig& c, WeightSource& source,
                                    const LoadOptions& options) {
  Loader loader(source, options);
  Weights weights;
  weights.dtype = options.dtype;
  const int64_t vocab = c.common.vocab_size;

  const MatrixValues embedding = loader.ReadMatrix("embedding.weight", vocab, c.d_model);
  weights.embedding = loader.UploadMatrix(embedding);
  if (options.dtype == DType::kInt8) {
    weights.embedding_scales = loader.Upload(embedding.quantized.scales);
  }
  if (c.pe_abs) {
    const std::vector<float> scale = loader.Read("position.scale", {1});
    weights.position_scale = scale.empty() ? 0 : scale[0];
  }
  const std::vector<float> sinusoids = Sinusoids(c.window(), c.d_model, c.pe_lam);
  for (int64_t i = 0; i < c.n_layer && loader.status().ok(); ++i) {
    weights.layers.push_back(LoadLayer(c, i, sinusoids, loader));
    if (options.progress) options.progress(i + 1, c.n_layer);
  }
  if (c.output_norm) {
    weights.norm_gain = loader.Upload(loader.Read("norm.weight", {c.d_model}));
    weights.norm_bias = loader.Upload(loader.Read("norm.bias", {c.d_model}));
  }
  if (c.tie_word_embeddings) {
    weights.logits = loader.Pack({&embedding});
  } else {
    const MatrixValues head = loader.ReadMatrix("lm_head.weight", vocab, c.d_model);
    weights.logits = loader.Pack({&head});
  }
  weights.logits_bias = loader.Upload(loader.Read("lm_head.bias", {vocab}));

  if (!loader.status().ok()) return loader.status();
  weights.parameters = loader.parameters();
  weights.bytes = loader.bytes();
  weights.rounding = loader.rounding();
  return weights;
}

}  // namespace tvq::transformer_vq
