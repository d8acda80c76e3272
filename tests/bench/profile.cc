#include "tests/bench/profile.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

struct Slot {
  const char* name;
  int64_t calls = 0;
  double seconds = 0;
};

// One place per op that runs in a step. A table of functions holds plain pointers, so what they
// count lies here; devices are used by one thread at a time.
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
std::array<Slot, kOps> slots = {{{"embedding"},
                                 {"rms_norm"},
                                 {"qkvg_projection"},
                                 {"vq_assign"},
                                 {"head_scores"},
                                 {"vq_decode_attention"},
                                 {"vq_prefill_attention"},
                                 {"gated_output"},
                                 {"linear"},
                                 {"sample"}}};

// Calls the CPU backend's `function` and counts its time under `op`.
template <Op op, auto function, typename Args>
absl::Status Timed(Device& device, const Args& args) {
  const Stopwatch watch;
  absl::Status status = (CpuBackend().*function)(device, args);
  slots[op].seconds += watch.Seconds();
  ++slots[op].calls;
  return status;
}

Backend TimedBackend() {
  Backend b = CpuBackend();
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

absl::StatusOr<std::unique_ptr<Device>> MakeProfilingDevice(int threads, std::string_view isa) {
  static const Backend backend = TimedBackend();
  absl::StatusOr<std::unique_ptr<Device>> chosen = MakeCpuDevice(threads, isa);
  if (!chosen.ok()) return chosen.status();
  CpuDevice& cpu = AsCpu(**chosen);
  return std::make_unique<CpuDevice>(&backend, cpu.pool().threads(), cpu.bf16_dot(),
                                     absl::StrCat(cpu.Describe(), ", timing every op"));
}

std::vector<OpTime> TakeOpTimes() {
  std::vector<OpTime> times;
  for (Slot& slot : slots) {
    if (slot.calls > 0) times.push_back({slot.name, slot.calls, slot.seconds});
    slot.calls = 0;
    slot.seconds = 0;
  }
  return times;
}

}  // namespace tvq::bench
