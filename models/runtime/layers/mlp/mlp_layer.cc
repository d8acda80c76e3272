#include "models/runtime/layers/mlp/mlp_layer.h"

#include "kernels/ops/norm_rows.h"

namespace tvq {

void MlpLayer::Load(WeightLoader& loader) {
  norm_gain_ = loader.Upload(loader.Read(prefix() + "mlp_norm.weight", {width_}));
  norm_bias_ = loader.Upload(loader.Read(prefix() + "mlp_norm.bias", {width_}));
  const MatrixValues up = loader.ReadMatrix(prefix() + "mlp_up.weight", inner_, width_);
  up_ = loader.Pack({&up});
  up_bias_ = loader.Upload(loader.Read(prefix() + "mlp_up.bias", {inner_}));
  const MatrixValues down = loader.ReadMatrix(prefix() + "mlp_down.weight", width_, inner_);
  down_ = loader.Pack({&down});
  down_bias_ = loader.Upload(loader.Read(prefix() + "mlp_down.bias", {width_}));
}

void MlpLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&normed_, rows * width_);
  memory.Share(&inside_, rows * inner_);
}

absl::Status MlpLayer::Compute(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  const Matrix<float> normed{normed_, {n, width_}}, inside{inside_, {n, inner_}};
  absl::Status s = NormRows(device_, {Norm::kLayer, rows.x, VectorOf(norm_gain_, width_),
                                      VectorOf(norm_bias_, width_), normed});
  if (!s.ok()) return s;
  LinearArgs up;
  up.x = normed;
  up.weight = &up_;
  up.bias = VectorOf(up_bias_, inner_);
  up.activation = Activation::kGelu;
  up.y = inside;
  up.chunk_rows = rows.chunk_rows;
  if (s = Linear(device_, up); !s.ok()) return s;
  LinearArgs down;
  down.x = inside;
  down.weight = &down_;
  down.bias = VectorOf(down_bias_, width_);
  down.accumulate = true;
  down.y = rows.x;
  down.chunk_rows = rows.chunk_rows;
  return Linear(device_, down);
}

}  // namespace tvq
