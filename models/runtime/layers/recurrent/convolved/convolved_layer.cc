#include "models/runtime/layers/recurrent/convolved/convolved_layer.h"

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/ops/recurrent/recent_inputs.h"
#include "models/runtime/weights.h"

namespace tvq {
namespace {

// [C, 1, W] as [W, C], so that channels lie next to one another.
std::vector<float> TapsFirst(const std::vector<float>& weight, int64_t taps) {
  const auto width = static_cast<size_t>(taps), channels = weight.size() / width;
  std::vector<float> turned(weight.size());
  for (size_t i = 0; i < weight.size(); ++i) turned[i % width * channels + i / width] = weight[i];
  return turned;
}

}  // namespace

Buffer LoadRates(const std::string& name, int64_t size, WeightLoader& loader) {
  std::vector<float> values = loader.Read(name, {size});
  for (float& value : values) value = -std::exp(value);
  if (absl::Status s = CheckFinite("-exp of " + name, values); !s.ok()) loader.Fail(s);
  return loader.Upload(values);
}

ConvolvedLayer::ConvolvedLayer(std::string prefix, const Frame& frame, int64_t draft_rows,
                               Device& device)
    : RecurrentLayer(std::move(prefix),
                     {.inputs = frame.taps - 1,
                      .channels = frame.convolved,
                      .heads = frame.heads,
                      .key = frame.key,
                      .value = frame.value},
                     draft_rows, device),
      frame_(frame),
      norm_(frame.norm) {}

void ConvolvedLayer::LoadFrame(const Names& names, LinearWeight in, bool convolution_bias,
                               WeightLoader& loader) {
  const int64_t width = frame_.norm.width, channels = frame_.convolved;
  norm_.Load(names.norm, loader);
  in_ = std::move(in);
  weight_ = loader.Upload(TapsFirst(
      loader.Read(names.convolution + ".weight", {channels, 1, frame_.taps}), frame_.taps));
  if (convolution_bias) {
    bias_ = loader.Upload(loader.Read(names.convolution + ".bias", {channels}));
  }
  const MatrixValues out =
      loader.ReadMatrix(names.output + ".weight", width, frame_.heads * frame_.value);
  out_ = loader.Pack({&out});
  if (names.input_bias.empty()) return;
  in_bias_ = loader.Upload(loader.Read(names.input_bias, {frame_.projected}));
  out_bias_ = loader.Upload(loader.Read(names.output + ".bias", {width}));
}

void ConvolvedLayer::ReserveRows(int64_t rows, WorkingMemory& memory) {
  memory.Share(&normed_, rows * frame_.norm.width);
  memory.Share(&projected_, rows * frame_.projected);
  memory.Share(&convolved_, rows * frame_.convolved);
  memory.Share(&mixed_, rows * frame_.heads * frame_.value);
}

absl::Status ConvolvedLayer::Compute(const RecurrentRows& sessions, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0), width = frame_.norm.width;
  const Matrix<float> normed{normed_, {n, width}};
  const Matrix<float> projected{projected_, {n, frame_.projected}};
  const Matrix<float> convolved{convolved_, {n, frame_.convolved}};
  absl::Status s = norm_.Apply(device_, rows.x, normed);
  if (s.ok()) {
    s = Multiply({.x = normed,
                  .weight = in_,
                  .y = projected,
                  .bias = OptionalVector(in_bias_, frame_.projected)},
                 rows);
  }
  if (!s.ok()) return s;
  CausalConvolutionArgs convolution;
  convolution.sessions = sessions;
  convolution.x = projected;
  convolution.first = frame_.first;
  convolution.weight = {weight_.as<const float>(), {frame_.taps, frame_.convolved}};
  convolution.bias = OptionalVector(bias_, frame_.convolved);
  convolution.out = convolved;
  s = CausalConvolution(device_, convolution);
  if (s.ok()) s = Mix(sessions, projected, convolved, {mixed_, {n, frame_.heads, frame_.value}});
  if (!s.ok()) return s;
  return Multiply({.x = {mixed_, {n, frame_.heads * frame_.value}},
                   .weight = out_,
                   .y = rows.x,
                   .bias = OptionalVector(out_bias_, width),
                   .accumulate = true},
                  rows);
}

}  // namespace tvq
