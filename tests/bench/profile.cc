#include "tests/bench/profile.h"

#include <utility>

#include "kernels/device/backend.h"

namespace tvq::bench {
namespace {

struct Call {
  std::unique_ptr<DeviceTime> begin, end;
};

// A table of functions holds plain pointers, so what they note lies here; devices are used by one
// thread at a time.
template <auto function>
std::vector<Call> calls;

struct Op {
  const char* name;
  std::vector<Call>* calls;
};
std::vector<Op> ops;  // that are timed, in the backend's order

// Calls the device's own `function` and notes when it begins and ends there.
template <auto function, typename Args>
absl::Status Timed(Device& device, const Args& args) {
  auto begin = device.Now();
  if (!begin.ok()) return begin.status();
  if (absl::Status s = (device.backend().*function)(device, args); !s.ok()) return s;
  auto end = device.Now();
  if (!end.ok()) return end.status();
  calls<function>.push_back({*std::move(begin), *std::move(end)});
  return absl::OkStatus();
}

// What the device lacks stays missing.
template <auto function, typename Args>
void Time(const char* name, absl::Status (*&entry)(Device&, const Args&)) {
  if (entry == nullptr) return;
  entry = Timed<function, Args>;
  ops.push_back({name, &calls<function>});
}

// All that a subject calls, which is a Transformer-VQ: a step is the sum of its ops.
Backend TimedBackend(Backend b) {
  Time<&Backend::embedding>("embedding", b.embedding);
  Time<&Backend::rms_norm>("rms_norm", b.rms_norm);
  Time<&Backend::layer_norm>("layer_norm", b.layer_norm);
  Time<&Backend::linear>("linear", b.linear);
  Time<&Backend::gated_output>("gated_output", b.gated_output);
  Time<&Backend::qkvg_projection>("qkvg_projection", b.qkvg_projection);
  Time<&Backend::turned_decode_scores>("turned_decode_scores", b.turned_decode_scores);
  Time<&Backend::turned_prefill_scores>("turned_prefill_scores", b.turned_prefill_scores);
  Time<&Backend::vq_scores>("vq_scores", b.vq_scores);
  Time<&Backend::vq_take_back>("vq_take_back", b.vq_take_back);
  Time<&Backend::vq_decode_attention>("vq_decode_attention", b.vq_decode_attention);
  Time<&Backend::vq_prefill_attention>("vq_prefill_attention", b.vq_prefill_attention);
  Time<&Backend::token_logprobs>("token_logprobs", b.token_logprobs);
  Time<&Backend::sample>("sample", b.sample);
  return b;
}

}  // namespace

void TimeEveryOp(Device& device) {
  static const Backend timed = TimedBackend(device.backend());
  device.StandBetween(&timed);
}

absl::StatusOr<std::vector<OpTime>> TakeOpTimes() {
  std::vector<OpTime> times;
  for (const Op& op : ops) {
    OpTime time{op.name};
    for (const Call& call : std::exchange(*op.calls, {})) {
      const absl::StatusOr<double> seconds = call.end->SecondsSince(*call.begin);
      if (!seconds.ok()) return seconds.status();
      time.seconds += *seconds;
      ++time.calls;
    }
    if (time.calls > 0) times.push_back(std::move(time));
  }
  return times;
}

}  // namespace tvq::bench
