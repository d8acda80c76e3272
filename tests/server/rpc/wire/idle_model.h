// A model that computes nothing, for conversions, which ask for its config and its tokenizer.
#ifndef TVQ_TESTS_SERVER_RPC_WIRE_IDLE_MODEL_H_
#define TVQ_TESTS_SERVER_RPC_WIRE_IDLE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rpc/wire/convert.h"

namespace tvq {

inline constexpr int32_t kUnknown = '?';

// Ids are the bytes, but that "#" is in no vocabulary.
class ByteIds : public Tokenizer {
 public:
  ByteIds() {
    for (int i = 0; i < 256; ++i) bytes_.push_back(static_cast<char>(i));
  }
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    if (text == "refused") return absl::InvalidArgumentError("character 0 has no id");
    std::vector<int32_t> ids(text.begin(), text.end());
    std::replace(ids.begin(), ids.end(), int32_t{'#'}, kUnknown);
    return ids;
  }
  std::optional<int32_t> unknown_token() const override { return kUnknown; }
  size_t TokenBegin(std::string_view, size_t index) const override { return index; }
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override {
    return std::string(ids.begin(), ids.end());
  }
  std::string_view TokenBytes(int32_t id) const override {
    return std::string_view(bytes_).substr(id, 1);
  }
  bool IsSpecial(int32_t) const override { return false; }
  bool StripsLeadingSpace() const override { return false; }
  int32_t vocab_size() const override { return 256; }
  std::string_view type() const override { return "bytes"; }

 private:
  std::string bytes_;
};

// Has a config and a tokenizer, computes nothing.
class IdleModel : public Model {
 public:
  explicit IdleModel(ModelInfo info) : info_(std::move(info)) {}
  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  int64_t StateBytes(int64_t) const override { return 1000; }
  std::vector<SectionInfo> StateSections(int64_t) const override { return {}; }
  int64_t WorkspaceBytes(int64_t) const override { return 0; }
  absl::StatusOr<std::unique_ptr<State>> NewState() override {
    return absl::UnimplementedError("idle");
  }
  absl::StatusOr<Logits> NewLogits(int64_t) override { return absl::UnimplementedError("idle"); }
  absl::Status ReadLogits(const Logits&, int64_t, std::span<float>) override { return Idle(); }
  absl::Status WriteLogits(std::span<const float>, Logits*, int64_t) override { return Idle(); }
  absl::Status Prefill(const PrefillChunk&, Logits*) override { return Idle(); }
  absl::Status Decode(std::span<const DecodeRow>, Logits*) override { return Idle(); }
  absl::Status Sample(const Logits&, std::span<const SampleRow>, int64_t, std::span<TokenLogprob>,
                      std::span<TokenLogprob>, std::span<absl::Status>) override {
    return Idle();
  }

 private:
  static absl::Status Idle() { return absl::UnimplementedError("idle"); }
  ModelInfo info_;
  ByteIds tokenizer_;
};

inline ServedModel MakeModel(const std::string& name, std::optional<int32_t> eos,
                             GenerationDefaults defaults = {}, int64_t max_position = 0) {
  ModelInfo info;
  info.family = "idle";
  info.config.vocab_size = 256;
  info.config.max_position = max_position;
  info.config.eos_token_id = eos;
  info.generation = std::move(defaults);
  return {name, std::make_shared<IdleModel>(info)};
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_WIRE_IDLE_MODEL_H_
