#include "tests/bench/profile.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/backend.h"

namespace tvq::bench {
namespace {

// An op that runs in a step, by its name.
enum Op {
  kEmbedding,
  kRmsNorm,
  kQkvgProjection,
  kVqAssign,
  kHeadScores,
  kVqDecodeAttention,
  kVqPrefillAttention,
  kGatedOutput,
  kLinear,
  kSample,
  kOps
};
constexpr std::array<const char*, kOps> kNames = {"embedding",
                                                  "rms_norm",
                                                  "qkvg_projection",
                                                  "vq_assign",
                                                  "head_scores",
                                                  "vq_decode_attention",
                                                  "vq_prefill_attention",
                                                  "gated_output",
                                                  "linear",
                                                  "sample"};

struct Call {
  Op op;
  std::unique_ptr<DeviceTime> begin, end;
};

// A table of functions holds plain pointers, so what they note lies here; devices are used by one
// thread at a time.
std::vector<Call> calls;

// Calls the device's own `function` and notes when it begins and ends there.
template <Op op, auto function, typename Args>
absl::Status Timed(Device& device, const Args& args) {
  auto begin = device.Now();
  if (!begin.ok()) return begin.status();
  if (absl::Status s = (device.backend().*function)(device, args); !s.ok()) return s;
  auto end = device.Now();
  if (!end.ok()) return end.status();
  calls.push_back({op, *std::move(begin), *std::move(end)});
  return absl::OkStatus();
}

Backend TimedBackend(Backend b) {
  b.embedding = Timed<kEmbedding, &Backend::embedding, EmbeddingArgs>;
  b.rms_norm = Timed<kRmsNorm, &Backend::rms_norm, RmsNormArgs>;
  b.qkvg_projection = Timed<kQkvgProjection, &Backend::qkvg_projection, QkvgProjectionArgs>;
  b.vq_assign = Timed<kVqAssign, &Backend::vq_assign, VqAssignArgs>;
  b.head_scores = Timed<kHeadScores, &Backend::head_scores, HeadScoresArgs>;
  b.vq_decode_attention =
      Timed<kVqDecodeAttention, &Backend::vq_decode_attention, VqDecodeAttentionArgs>;
  b.vq_prefill_attention =
      Timed<kVqPrefillAttention, &Backend::vq_prefill_attention, VqPrefillAttentionArgs>;
  b.gated_output = Timed<kGatedOutput, &Backend::gated_output, GatedOutputArgs>;
  b.linear = Timed<kLinear, &Backend::linear, LinearArgs>;
  b.sample = Timed<kSample, &Backend::sample, SampleArgs>;
  return b;
}

}  // namespace

void TimeEveryOp(Device& device) {
  static const Backend timed = TimedBackend(device.backend());
  device.StandBetween(&timed);
}

absl::StatusOr<std::vector<OpTime>> TakeOpTimes() {
  std::vector<OpTime> times;
  for (const char* name : kNames) times.push_back({name});
  for (const Call& call : std::exchange(calls, {})) {
    const absl::StatusOr<double> seconds = call.end->SecondsSince(*call.begin);
    if (!seconds.ok()) return seconds.status();
    times[call.op].seconds += *seconds;
    ++times[call.op].calls;
  }
  std::erase_if(times, [](const OpTime& time) { return time.calls == 0; });
  return times;
}

}  // namespace tvq::bench
