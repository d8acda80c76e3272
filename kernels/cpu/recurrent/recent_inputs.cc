#include "kernels/ops/recurrent/recent_inputs.h"

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/recurrent/runs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/recent_inputs.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using Floats = hn::CappedTag<float, 16>;

// The rows of a run as the channels from `channel` on see them: behind the session's inputs
// [R, C] come the rows themselves.
struct Rows {
  const RecurrentState& state;
  Matrix<const float> x;
  int64_t column, channels, inputs, first;

  // The channels of row n, or of one up to `inputs` rows ahead of the first.
  const float* At(int64_t n, int64_t channel) const {
    if (n >= first) return x.row(n) + column + channel;
    return state.inputs + (inputs + n - first) * channels + channel;
  }

  // Makes the last rows the session's inputs. A row that was an input already moves to an earlier
  // place, so writing the places in order overwrites no row that is still to be read.
  void Take(int64_t count, int64_t channel, int64_t width) const {
    for (int64_t i = 0; i < inputs; ++i) {
      float* const place = state.inputs + i * channels + channel;
      if (state.kept_inputs != nullptr) {
        Keep(place, width, state.kept_inputs + i * channels + channel);
      }
    }
    for (int64_t i = 0; i < inputs; ++i) {
      std::copy_n(At(first + count - inputs + i, channel), width,
                  state.inputs + i * channels + channel);
    }
  }
};

void TokenShiftImpl(const TokenShiftArgs& args, int64_t channel, int64_t width) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t rows = args.x.dim(0), channels = args.x.dim(1), mixes = args.mix.dim(0);
  const auto out = [&](int64_t m, int64_t n) { return args.out.row(m) + n * channels + channel; };
  const auto visit = [&](const RecurrentState& state, int64_t first, int64_t count) HWY_ATTR {
    if (state.none()) {
      for (int64_t m = 0; m < mixes; ++m) std::fill_n(out(m, first), width, 0.0F);
      return;
    }
    const Rows seen{state, args.x, 0, channels, 1, first};
    for (int64_t n = first; n < first + count; ++n) {
      const float *const now = seen.At(n, channel), *const before = seen.At(n - 1, channel);
      for (int64_t c = 0; c < width; c += lanes) {
        const auto left = static_cast<size_t>(width - c);
        const auto x = LoadFirst(d, now + c, left);
        const auto change = hn::Sub(LoadFirst(d, before + c, left), x);
        for (int64_t m = 0; m < mixes; ++m) {
          const auto mix = LoadFirst(d, args.mix.row(m) + channel + c, left);
          StoreFirst(hn::MulAdd(change, mix, x), d, out(m, n) + c, left);
        }
      }
    }
    seen.Take(count, channel, width);
  };
  for (int64_t run = 0; run < Runs(args.sessions, rows); ++run) {
    VisitRun(args.sessions, run, rows, visit);
  }
}

void ConvolutionImpl(const CausalConvolutionArgs& args, int64_t channel, int64_t width) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t rows = args.x.dim(0), taps = args.weight.dim(0), channels = args.weight.dim(1);
  const auto visit = [&](const RecurrentState& state, int64_t first, int64_t count) HWY_ATTR {
    if (state.none()) return std::fill_n(args.out.row(first) + channel, width, 0.0F), void();
    const Rows seen{state, args.x, args.first, channels, taps - 1, first};
    for (int64_t n = first; n < first + count; ++n) {
      for (int64_t c = channel; c < channel + width; c += lanes) {
        const auto left = static_cast<size_t>(channel + width - c);
        auto sum = args.bias.empty() ? hn::Zero(d) : LoadFirst(d, args.bias.data + c, left);
        for (int64_t j = 0; j < taps; ++j) {
          const auto weight = LoadFirst(d, args.weight.row(j) + c, left);
          sum = hn::MulAdd(LoadFirst(d, seen.At(n - taps + 1 + j, c), left), weight, sum);
        }
        StoreFirst(FastSilu(d, sum), d, args.out.row(n) + c, left);
      }
    }
    seen.Take(count, channel, width);
  };
  for (int64_t run = 0; run < Runs(args.sessions, rows); ++run) {
    VisitRun(args.sessions, run, rows, visit);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(TokenShiftImpl);
HWY_EXPORT(ConvolutionImpl);

// Rows of a session follow one another, channels are independent: threads share the channels.
// task(channel, width) for every tile of them; `work`: multiply-adds of a channel.
template <typename Task>
void ShareChannels(Device& device, int64_t channels, int64_t work, const Task& task) {
  CpuDevice& cpu = AsCpu(device);
  const int64_t columns = TaskColumns(1, channels, cpu.pool().threads());
  RunTasks(cpu, (channels + columns - 1) / columns, channels * work, [&](int64_t tile) {
    const int64_t channel = tile * columns;
    task(channel, std::min(columns, channels - channel));
  });
}

}  // namespace

absl::Status CpuTokenShift(Device& device, const TokenShiftArgs& args) {
  const int64_t work = args.x.dim(0) * args.mix.dim(0);
  ShareChannels(device, args.x.dim(1), work, [&](int64_t channel, int64_t width) {
    HWY_DYNAMIC_DISPATCH(TokenShiftImpl)(args, channel, width);
  });
  return absl::OkStatus();
}

absl::Status CpuCausalConvolution(Device& device, const CausalConvolutionArgs& args) {
  const int64_t work = args.x.dim(0) * args.weight.dim(0);
  ShareChannels(device, args.weight.dim(1), work, [&](int64_t channel, int64_t width) {
    HWY_DYNAMIC_DISPATCH(ConvolutionImpl)(args, channel, width);
  });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
