#include "models/runtime/stack/vocabulary.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ops/embedding.h"

namespace tvq {

void Vocabulary::LoadEmbedding(WeightLoader& loader) {
  loaded_ = loader.ReadVocabularyMatrix(config_.tensors.embedding, config_.common.vocab_size,
                                        config_.d_model);
  embedding_ = loader.UploadMatrix(loaded_);
  embedding_dtype_ = loaded_.dtype;
  if (loaded_.dtype == DType::kInt8) embedding_scales_ = loader.Upload(loaded_.scales);
  if (!config_.pe_abs) return;
  const std::vector<float> scale = loader.Read("position.scale", {1});
  position_scale_ = scale.empty() ? 0 : scale[0];
}

void Vocabulary::LoadLogits(WeightLoader& loader) {
  const int64_t vocab = config_.common.vocab_size, d = config_.d_model;
  const VocabularyTensors& names = config_.tensors;
  if (config_.output_norm) norm_.Load(names.norm, loader);
  if (!config_.tie_word_embeddings) {
    loaded_ = loader.ReadVocabularyMatrix(names.logits + ".weight", vocab, d);
  }
  logits_ = loader.Pack({&loaded_});
  loaded_ = {};
  if (names.logits_bias) logits_bias_ = loader.Upload(loader.Read(names.logits + ".bias", {vocab}));
}

void Vocabulary::Reserve(int64_t rows, WorkingMemory& memory) {
  if (config_.output_norm) memory.Share(&normed_, rows * config_.d_model);
}

absl::Status Vocabulary::CheckTokens(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.common.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", i, " is id ", tokens[i], ", must be in [0, ", config_.common.vocab_size, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::Embed(Vector<const int32_t> tokens, Vector<const int64_t> positions,
                               Matrix<float> x) const {
  EmbeddingArgs args;
  args.table = embedding_.data();
  args.dtype = embedding_dtype_;
  args.vocab = config_.common.vocab_size;
  args.scales = VectorOf(embedding_scales_, args.vocab);
  args.ids = tokens;
  args.positions = positions;
  args.position_scale = position_scale_;
  args.position_lam = config_.pe_lam;
  args.out = x;
  return Embedding(device_, args);
}

absl::StatusOr<Matrix<float>> Vocabulary::Norm(Matrix<float> x) const {
  if (!config_.output_norm) return x;
  const Matrix<float> normed{normed_, x.shape};
  if (absl::Status s = norm_.Apply(device_, x, normed); !s.ok()) return s;
  return normed;
}

absl::Status Vocabulary::Logits(Matrix<float> x, Matrix<float> out) const {
  const absl::StatusOr<Matrix<float>> normed = Norm(x);
  if (!normed.ok()) return normed.status();
  LinearArgs args;
  args.x = *normed;
  args.weight = &logits_;
  args.bias = OptionalVector(logits_bias_, out.dim(1));
  args.scale = static_cast<float>(config_.logit_scale);
  args.y = out;
  return Linear(device_, args);
}

}  // namespace tvq
