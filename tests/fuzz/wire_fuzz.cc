// Any bytes as a request: what is converted and passes the engine's checks keeps the ranges that
// the engine relies on. The first byte chooses the message.

#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "models/runtime/tokenizer/types.h"
#include "server/rpc/convert.h"
#include "server/rpc/session_convert.h"
#include "server/rpc/wire.h"

namespace tvq {
namespace {

constexpr int64_t kVocab = 259;

// Has a config and a tokenizer, computes nothing.
class IdleModel : public Model {
 public:
  IdleModel() {
    info_.config.vocab_size = kVocab;
    info_.config.eos_token_id = 1;
    info_.config.max_position = 1000;
    tokenizer_ = MakeBytesTokenizer(info_.config).value();
  }
  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  int64_t StateBytes(int64_t) const override { return 1000; }
  int64_t WorkspaceBytes(int64_t) const override { return 0; }
  absl::StatusOr<std::unique_ptr<State>> NewState() override { return Idle(); }
  absl::StatusOr<Logits> NewLogits(int64_t) override { return Idle(); }
  absl::Status ReadLogits(const Logits&, int64_t, std::span<float>) override { return Idle(); }
  absl::Status WriteLogits(std::span<const float>, Logits*, int64_t) override { return Idle(); }
  absl::Status Prefill(std::span<const PrefillChunk>, Logits*) override { return Idle(); }
  absl::Status Decode(std::span<const DecodeRow>, Logits*) override { return Idle(); }
  absl::Status Sample(const Logits&, std::span<const SampleRow>, int64_t, std::span<TokenLogprob>,
                      std::span<TokenLogprob>, std::span<absl::Status>) override {
    return Idle();
  }

 private:
  static absl::Status Idle() { return absl::UnimplementedError("idle"); }
  ModelInfo info_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

void Expect(bool sound) {
  if (!sound) std::abort();
}

void Check(const absl::StatusOr<Request>& request, const ModelInfo& info) {
  if (!request.ok() || !Validate(*request, info).ok()) return;
  for (int32_t id : request->prompt) Expect(id >= 0 && id < kVocab);
  const SamplingParams& p = request->sampling;
  if (request->purpose != Purpose::kGenerate) return;
  Expect(std::isfinite(p.temperature) && p.temperature >= 0 && p.top_p > 0 && p.top_p <= 1);
  Expect(p.n >= 1 && p.n <= kMaxSamples && p.max_tokens >= p.min_tokens && p.min_tokens >= 0);
  Expect(p.logprobs.value_or(0) >= 0 && p.logprobs.value_or(0) <= kMaxLogprobs);
  for (const LogitBias& bias : p.logit_bias) {
    Expect(bias.id >= 0 && bias.id < kVocab && std::isfinite(bias.bias));
  }
  for (int32_t id : p.allowed_token_ids) Expect(id >= 0 && id < kVocab);
}

void CheckCall(const v1::SessionCall& message) {
  const absl::StatusOr<SessionCall> call = ToSessionCall(message, 0, "owner");
  if (call.ok()) Expect(call->idempotency_key.size() <= 128 && call->owner == "owner");
}

// The message that `bytes` are, if they are one.
template <typename Message>
bool Parse(std::span<const uint8_t> bytes, Message* message) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return ParseMessage(grpc::ByteBuffer(&slice, 1), message).ok();
}

void Run(int kind, std::span<const uint8_t> bytes) {
  static const auto* const model = new ServedModel{"m", std::make_shared<IdleModel>()};
  const ModelInfo& info = model->model->info();
  const RequestLimits limits{.max_prompt_tokens = 500};
  if (v1::GenerateRequest m; kind == 0 && Parse(bytes, &m)) {
    Check(ToRequest(m, *model, limits), info);
    Check(ToRequest(m, *model, limits, {ContextStart::kSession, 7}), info);
    Check(ToRequest(m, *model, limits, {ContextStart::kUpload, 0}), info);
    CheckCall(m.session());
  } else if (v1::ScoreRequest m; kind == 1 && Parse(bytes, &m)) {
    Check(ToRequest(m, *model, limits), info);
  } else if (v1::AppendSessionRequest m; kind == 2 && Parse(bytes, &m)) {
    Check(ToRequest(m, *model, limits), info);
    CheckCall(m.session());
  } else if (v1::CreateSessionRequest m; kind == 3 && Parse(bytes, &m)) {
    const absl::StatusOr<CreateOptions> options = ToCreateOptions(m);
    if (options.ok()) Expect(options->ttl.value_or(absl::Seconds(1)) > absl::ZeroDuration());
  } else if (v1::ForkSessionRequest m; kind == 4 && Parse(bytes, &m)) {
    const absl::StatusOr<ForkOptions> options = ToForkOptions(m);
    if (options.ok()) Expect(options->count >= 1 && options->count <= kMaxForks);
  } else if (v1::ListSessionsRequest m; kind == 5 && Parse(bytes, &m)) {
    const absl::StatusOr<int64_t> size = ToPageSize(m);
    if (size.ok()) Expect(*size >= 1 && *size <= kMaxPageSize);
  } else if (v1::ImportSessionRequest m; kind == 6 && Parse(bytes, &m)) {
    (void)CheckChunk(m.chunk());
    (void)ToCreateOptions(m.create());
  } else if (v1::MarkSessionRequest m; kind == 7 && Parse(bytes, &m)) {
    (void)CheckMarkName(m.name(), "name");
    CheckCall(m.session());
  }
}

}  // namespace
}  // namespace tvq

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it prints every string that is not UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) tvq::Run(data[0] % 8, {data + 1, size - 1});
  return 0;
}
