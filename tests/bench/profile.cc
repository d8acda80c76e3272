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
  kLayerNorm,
  kQkvgProjection,
  kVqScores,
  kHeadScores,
  kVqDecodeAttention,
  kVqPrefillAttention,
  kLinearDecodeAttention,
  kLinearPrefillAttention,
  kSoftmaxDecodeAttention,
  kSoftmaxPrefillAttention,
  kGatedOutput,
  kLinear,
  kSample,
  kOps
};
constexpr std::array<const char*, kOps> kNames = {"embedding",
                                                  "rms_norm",
                                                  "layer_norm",
                                                  "qkvg_projection",
                                                  "vq_scores",
                                                  "head_scores",
                                                  "vq_decode_attention",
                                                  "vq_prefill_attention",
                                                  "linear_decode_attention",
                                                  "linear_prefill_attention",
                                                  "softmax_decode_attention",
                                                  "softmax_prefill_attention",
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

// What the device lacks stays missing.
template <Op op, auto function, typename Args>
void Time(absl::Status (*&entry)(Device&, const Args&)) {
  if (entry != nullptr) entry = Timed<op, function, Args>;
}

Backend TimedBackend(Backend b) {
  Time<kEmbedding, &Backend::embedding>(b.embedding);
  Time<kRmsNorm, &Backend::rms_norm>(b.rms_norm);
  Time<kLayerNorm, &Backend::layer_norm>(b.layer_norm);
  Time<kQkvgProjection, &Backend::qkvg_projection>(b.qkvg_projection);
  Time<kVqScores, &Backend::vq_scores>(b.vq_scores);
  Time<kHeadScores, &Backend::head_scores>(b.head_scores);
  Time<kVqDecodeAttention, &Backend::vq_decode_attention>(b.vq_decode_attention);
  Time<kVqPrefillAttention, &Backend::vq_prefill_attention>(b.vq_prefill_attention);
  Time<kLinearDecodeAttention, &Backend::linear_decode_attention>(b.linear_decode_attention);
  Time<kLinearPrefillAttention, &Backend::linear_prefill_attention>(b.linear_prefill_attention);
  Time<kSoftmaxDecodeAttention, &Backend::softmax_decode_attention>(b.softmax_decode_attention);
  Time<kSoftmaxPrefillAttention, &Backend::softmax_prefill_attention>(b.softmax_prefill_attention);
  Time<kGatedOutput, &Backend::gated_output>(b.gated_output);
  Time<kLinear, &Backend::linear>(b.linear);
  Time<kSample, &Backend::sample>(b.sample);
  return b;
}

}  // namespace

void TimeEveryOp(Device& device) {
  static const Backend timed = TimedBackend(device.backend());
  device.StandBetween(&timed);
}

absl::StatusOr<std::vector<OpTime>> TakeOpTimes() {
  std::vector<OpTime> times;
  times.reserve(kNames.size());
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
