// Any bytes as a request: what is converted and passes the engine's checks keeps the ranges that
// the engine relies on. The first byte chooses the message.

#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/tokenizer/types.h"
#include "server/rpc/services/drain_convert.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/wire.h"
#include "server/sessions/record/session_limits.h"

namespace tvq {
namespace {

constexpr int64_t kVocab = 259;

// Has a config and a tokenizer, computes nothing.
class IdleModel : public Model {
 public:
  IdleModel() {
    info_.config.vocab_size = kVocab;
    info_.config.eos_token_id = 1;
    info_.generation.bos_token_id = 1;
    info_.generation.add_bos_token = true;
    info_.config.max_position = 1000;
    tokenizer_ = MakeBytesTokenizer(info_.config).value();
  }
  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  int64_t StateBytes(int64_t) const override { return 1000; }
  std::vector<SectionInfo> StateSections(int64_t) const override { return {}; }
  int64_t WorkspaceBytes(int64_t) const override { return 0; }
  absl::StatusOr<std::unique_ptr<State>> NewState() override { return Idle(); }
  absl::StatusOr<Logits> NewLogits(int64_t) override { return Idle(); }
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
  Expect(p.n >= 1 && p.n <= 128 && p.min_tokens >= 0);
  Expect(p.max_tokens == 0 || p.max_tokens >= p.min_tokens);
  Expect(p.logprobs.value_or(0) >= 0 && p.logprobs.value_or(0) <= kMaxLogprobs);
  for (const LogitBias& bias : p.logit_bias) {
    Expect(bias.id >= 0 && bias.id < kVocab && std::isfinite(bias.bias));
  }
  for (int32_t id : p.allowed_token_ids) Expect(id >= 0 && id < kVocab);
}

const ServedModel& TheModel() {
  static const auto* const model = new ServedModel{"m", std::make_shared<IdleModel>()};
  return *model;
}
const ModelInfo& TheInfo() { return TheModel().model->info(); }
constexpr RequestLimits kLimits{.max_prompt_tokens = 500};

// Of a message with a field `session`.
template <typename Message>
void CheckCall(const Message& message) {
  const absl::StatusOr<SessionCall> call = ToSessionCall(message, "owner");
  if (!call.ok()) return;
  Expect(call->idempotency_key.size() <= 128 && call->owner == "owner" && !call->id.empty());
  Expect(call->expected_version.value_or(1) >= 1);
}

void CheckMark(const std::string& name, const char* field) {
  if (CheckMarkName(name, field).ok()) Expect(!name.empty() && name.size() <= 128);
}

void CheckPiece(const std::string& chunk) {
  if (CheckChunk(chunk).ok()) Expect(std::ssize(chunk) <= kSnapshotChunkBytes);
}

void CheckGenerate(const v1::GenerateRequest& m) {
  (void)FindModel({&TheModel(), 1}, m.model());
  Check(ToRequest(m, TheModel(), kLimits), TheInfo());
  Check(ToRequest(m, TheModel(), kLimits, {ContextStart::kSession, 7}), TheInfo());
  Check(ToRequest(m, TheModel(), kLimits, {ContextStart::kUpload, 0}), TheInfo());
  if (m.has_session()) CheckCall(m);
}

void CheckScore(const v1::ScoreRequest& m) {
  absl::StatusOr<ScoreInput> input = ToRequest(m, TheModel(), kLimits);
  if (!input.ok()) return;
  Expect(input->before <= 1 && input->before < std::ssize(input->request.prompt));
  Check(std::move(input->request), TheInfo());
}

void CheckAppend(const v1::AppendSessionRequest& m) {
  Check(ToRequest(m, TheModel(), kLimits, {ContextStart::kSession, 0}), TheInfo());
  CheckCall(m);
}

void CheckCreate(const v1::CreateSessionRequest& m) {
  const absl::StatusOr<CreateOptions> options = ToCreateOptions(m);
  if (!options.ok()) return;
  Expect(options->ttl.value_or(absl::Seconds(1)) > absl::ZeroDuration());
  Expect(options->label.size() <= 256 && options->idempotency_key.size() <= 128);
}

void CheckFork(const v1::ForkSessionRequest& m) {
  CheckCall(m);
  const absl::StatusOr<ForkOptions> options = ToForkOptions(m);
  if (options.ok()) Expect(options->count >= 1 && options->count <= kMaxForks);
}

void CheckList(const v1::ListSessionsRequest& m) {
  const absl::StatusOr<int64_t> size = ToPageSize(m);
  if (size.ok()) Expect(*size >= 1 && *size <= kMaxPageSize);
}

void CheckImport(const v1::ImportSessionRequest& m) {
  CheckPiece(m.chunk());
  CheckCreate(m.create());
}

void CheckNewMark(const v1::MarkSessionRequest& m) {
  CheckMark(m.name(), "name");
  CheckCall(m);
}

void CheckUnmark(const v1::UnmarkSessionRequest& m) {
  CheckMark(m.name(), "name");
  CheckCall(m);
}

void CheckRewind(const v1::RewindSessionRequest& m) {
  CheckMark(m.mark(), "mark");
  CheckCall(m);
}

void CheckWithState(const v1::GenerateWithStateRequest& m) {
  CheckGenerate(m.generate());
  CheckPiece(m.chunk());
}

void CheckGet(const v1::GetSessionRequest& m) {
  (void)CheckSessionId(m.session_id(), "session_id");
}

void CheckDrain(const v1::DrainRequest& m) {
  const absl::StatusOr<DrainOrder> order = ToDrainOrder(m);
  if (!order.ok()) return;
  Expect(m.peer().empty());
  if (!order->timeout) return;
  Expect(*order->timeout >= std::chrono::seconds(0) && *order->timeout <= std::chrono::hours(25));
}

void CheckTokenize(const v1::TokenizeRequest& m) {
  const Tokenizer& tokenizer = TheModel().model->tokenizer();
  if (!CheckTextSize(std::ssize(m.text()), tokenizer, kLimits).ok()) return;
  const auto ids = TextTokens(m.text(), m.allow_unknown(), TheModel());
  if (ids.ok()) Expect(tokenizer.Decode(*ids).ok());
}

void CheckDetokenize(const v1::DetokenizeRequest& m) {
  if (!CheckTokenCount(m.token_ids_size(), kLimits, "token_ids").ok()) return;
  const std::vector<int32_t> ids(m.token_ids().begin(), m.token_ids().end());
  (void)TheModel().model->tokenizer().Decode(ids);
}

void CheckEncode(const v1::EncodeRequest& m) { (void)FindModel({&TheModel(), 1}, m.model()); }
void CheckGetModel(const v1::GetModelRequest& m) { (void)FindModel({&TheModel(), 1}, m.name()); }

// Calls `check` with the message that `bytes` are, if they are one.
template <typename Message, void (*check)(const Message&)>
void On(std::span<const uint8_t> bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  Message message;
  if (ParseMessage(grpc::ByteBuffer(&slice, 1), &message).ok()) check(message);
}

// By the input's first byte. New ones go to the end, so that inputs keep their meaning.
constexpr void (*kMessages[])(std::span<const uint8_t>) = {
    On<v1::GenerateRequest, CheckGenerate>,
    On<v1::ScoreRequest, CheckScore>,
    On<v1::AppendSessionRequest, CheckAppend>,
    On<v1::CreateSessionRequest, CheckCreate>,
    On<v1::ForkSessionRequest, CheckFork>,
    On<v1::ListSessionsRequest, CheckList>,
    On<v1::ImportSessionRequest, CheckImport>,
    On<v1::MarkSessionRequest, CheckNewMark>,
    On<v1::UnmarkSessionRequest, CheckUnmark>,
    On<v1::RewindSessionRequest, CheckRewind>,
    On<v1::GenerateWithStateRequest, CheckWithState>,
    On<v1::GetSessionRequest, CheckGet>,
    On<v1::SaveSessionRequest, CheckCall>,
    On<v1::DeleteSessionRequest, CheckCall>,
    On<v1::ExportSessionRequest, CheckCall>,
    On<v1::DrainRequest, CheckDrain>,
    On<v1::TokenizeRequest, CheckTokenize>,
    On<v1::DetokenizeRequest, CheckDetokenize>,
    On<v1::EncodeRequest, CheckEncode>,
    On<v1::GetModelRequest, CheckGetModel>,
};

}  // namespace
}  // namespace tvq

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it prints every string that is not UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] < std::size(tvq::kMessages))
    tvq::kMessages[data[0]]({data + 1, size - 1});
  return 0;
}
