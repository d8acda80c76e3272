// The token shift and the causal convolution (kernels/ops/recurrent/recent_inputs.h).
//
// A thread has a channel of one row in decode, of a span of rows in prefill; neighbouring threads
// have neighbouring channels. A row is read once by each row that wants it, from cache but for the
// first time. A span is as long as the inputs of a state or longer, so the thread with the first
// rows is the only one that reads the state, and replaces it when it has.
#include <algorithm>

#include "kernels/cuda/recurrent/sessions.cuh"
#include "kernels/ops/recurrent/recent_inputs.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kSpan = 16;  // rows, or more where a state has more inputs

struct Inputs {
  Sessions sessions;
  const float* x;    // from the first channel on
  int64_t row_step;  // from a row of x to the next
  int64_t channels;
  int64_t inputs;  // of a state
  int64_t rows;    // of a run
  int64_t span;    // rows of a thread
};

// Calls visit(n, channel, before) for this thread's rows, where before(i) is the channel i rows
// before; of no session zero(n, channel). blockIdx.x counts blocks of channels, blockIdx.y spans.
template <class Visit, class Zero>
__device__ void VisitInputs(const Inputs& args, const Visit& visit, const Zero& zero) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= args.channels) return;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * args.span;
  const RecurrentState state = args.sessions.Of(first);
  if (state.none()) return zero(first, channel);
  const int64_t begin = args.sessions.states == nullptr ? 0 : first;  // of the run
  const auto input = [&](int64_t row) {
    return row >= begin ? args.x[row * args.row_step + channel]
                        : state.inputs[(args.inputs + row - begin) * args.channels + channel];
  };
  const int64_t end = begin + args.rows;
  for (int64_t n = first; n < min(first + args.span, end); ++n) {
    visit(n, channel, [&](int64_t i) { return input(n - i); });
  }
  if (first != begin) return;
  for (int64_t i = 0; i < args.inputs; ++i) {
    state.inputs[i * args.channels + channel] = input(end - args.inputs + i);
  }
}

__global__ void __launch_bounds__(kThreads)
    TokenShiftKernel(Inputs args, const float* mix, int64_t mixtures, int64_t rows, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const auto place = [&](int64_t m, int64_t n, int64_t channel) {
    return (m * rows + n) * args.channels + channel;
  };
  VisitInputs(
      args,
      [&](int64_t n, int64_t channel, const auto& before) {
        const float x = before(0), difference = before(1) - x;
        for (int64_t m = 0; m < mixtures; ++m) {
          out[place(m, n, channel)] = fmaf(difference, mix[m * args.channels + channel], x);
        }
      },
      [&](int64_t n, int64_t channel) {
        for (int64_t m = 0; m < mixtures; ++m) out[place(m, n, channel)] = 0;
      });
}

__global__ void __launch_bounds__(kThreads)
    CausalConvolutionKernel(Inputs args, const float* weight, const float* bias, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  VisitInputs(
      args,
      [&](int64_t n, int64_t channel, const auto& before) {
        float sum = bias == nullptr ? 0 : bias[channel];
        for (int64_t j = 0; j <= args.inputs; ++j) {
          sum = fmaf(weight[j * args.channels + channel], before(args.inputs - j), sum);
        }
        out[n * args.channels + channel] = sum / (1 + expf(-sum));
      },
      [&](int64_t n, int64_t channel) { out[n * args.channels + channel] = 0; });
}

// `x` [N, P], of which the channels begin at column `first`.
Inputs Divide(const RecurrentRows& sessions, const Matrix<const float>& x, int64_t first,
              int64_t channels, int64_t inputs) {
  const bool prefill = sessions.prefill();
  return {.sessions = Sessions(sessions),
          .x = x.data + first,
          .row_step = x.dim(1),
          .channels = channels,
          .inputs = inputs,
          .rows = prefill ? x.dim(0) : 1,
          .span = prefill ? std::max(kSpan, inputs) : 1};
}

LaunchShape ShapeOf(const Inputs& inputs, int64_t rows) {
  return {.blocks = (inputs.channels + kThreads - 1) / kThreads,
          .blocks_y = (rows + inputs.span - 1) / inputs.span,
          .threads = kThreads,
          .overlaps = true};
}

}  // namespace

absl::Status CudaTokenShift(Device& device, const TokenShiftArgs& args) {
  const auto [rows, width] = args.x.shape;
  if (args.x.size() == 0) return absl::OkStatus();
  const Inputs inputs = Divide(args.sessions, args.x, 0, width, 1);
  return Launch("TokenShift", device, ShapeOf(inputs, rows), TokenShiftKernel, inputs,
                args.mix.data, args.mix.dim(0), rows, args.out.data);
}

absl::Status CudaCausalConvolution(Device& device, const CausalConvolutionArgs& args) {
  const auto [width, channels] = args.weight.shape;
  const int64_t rows = args.x.dim(0);
  if (args.out.size() == 0) return absl::OkStatus();
  const Inputs inputs = Divide(args.sessions, args.x, args.first, channels, width - 1);
  return Launch("CausalConvolution", device, ShapeOf(inputs, rows), CausalConvolutionKernel, inputs,
                args.weight.data, args.bias.data, args.out.data);
}

}  // namespace tvq::TVQ_CUDA
