#include "models/runtime/layers/attention/projection.h"

namespace tvq {
namespace {

// Heads side by side: [N, H, V] as [N, H*V].
Matrix<const float> Flat(Tensor<float, 3> t) { return {t.data, {t.dim(0), t.dim(1) * t.dim(2)}}; }

}  // namespace

void Projection::Load(const std::string& prefix, WeightLoader& loader) {
  const AttentionConfig& c = config_;
  const int64_t d = c.d_model, values = c.n_head * c.d_v;
  norm_gain_ = loader.Upload(loader.Read(prefix + "norm.weight", {d}));
  norm_bias_ = loader.Upload(loader.Read(prefix + "norm.bias", {d}));
  const MatrixValues q = loader.ReadMatrix(prefix + "q_proj.weight", c.n_head * c.d_k, d);
  const MatrixValues k = loader.ReadMatrix(prefix + "k_proj.weight", c.n_kv_head * c.d_k, d);
  const MatrixValues v = loader.ReadMatrix(prefix + "v_proj.weight", c.n_kv_head * c.d_v, d);
  if (gated()) {
    const MatrixValues g = loader.ReadMatrix(prefix + "g_proj.weight", values, d);
    qkvg_ = loader.Pack({&q, &k, &v, &g});
  } else {
    qkvg_ = loader.Pack({&q, &k, &v});
  }
  const MatrixValues o = loader.ReadMatrix(prefix + "o_proj.weight", d, values);
  o_ = loader.Pack({&o});
}

void Projection::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&v_, v(rows).size());
  memory.Share(&g_, g(rows).size());
  memory.Share(&out_, out(rows).size());
}

absl::Status Projection::Project(const LayerRows& rows, QkvgProjectionArgs args) {
  const int64_t n = rows.x.dim(0);
  if (!gated()) {
    args.norm = Norm::kLayer;
    args.value_activation = Activation::kNone;
  }
  args.x = rows.x;
  args.gain = VectorOf(norm_gain_, config_.d_model);
  args.bias = VectorOf(norm_bias_, config_.d_model);
  args.weight = &qkvg_;
  args.v = v(n);
  args.g = g(n);
  args.chunk_rows = rows.chunk_rows;
  return QkvgProjection(device_, args);
}

absl::Status Projection::Output(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  if (gated()) {
    return GatedOutput(device_, {Flat(out(n)), Flat(g(n)), &o_, rows.x, rows.chunk_rows});
  }
  LinearArgs args;
  args.x = Flat(out(n));
  args.weight = &o_;
  args.accumulate = true;
  args.y = rows.x;
  args.chunk_rows = rows.chunk_rows;
  return Linear(device_, args);
}

}  // namespace tvq
