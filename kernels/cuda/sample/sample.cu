// The next token of each row, with vLLM's parameters (kernels/ops/sample.h). Each row has a block.
//
//   a = logits with allowed, masked and banned ids, biases and penalties
//   e = exp((a - max a) / temperature)
//   the id at which the running sum of e, over what min_p, top_k and top_p leave, passes what is
//   drawn by (seed, sample index, position); at temperature 0 the first of the largest a
//
// A row's lists (counts, biases, allowed ids, mask, banned ids) travel in one copy to the GPU,
// results in one copy back: 12 bytes a token and alternative. The logits, 4 vocab bytes a row, are
// read once, adjusted and turned into exponentials in a copy of the row, as large, which the
// filters read from cache.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sample/sample_filter.cuh"
#include "kernels/ops/philox.h"
#include "kernels/ops/sample.h"

namespace tvq::TVQ_CUDA {
namespace {

enum Outcome : int32_t { kChosen, kNotFinite, kNothingAllowed };

// Where one of a row's lists lies.
template <typename T>
struct List {
  const T* data;
  int64_t size;
};

struct Row {
  int64_t logits_row;
  TVQ_SAMPLE_NUMBERS(TVQ_SAMPLE_MEMBER)
  uint64_t seed, sample_index, position;
  int64_t top_logprobs;
  List<TokenCount> counts;
  List<LogitBias> biases;  // of distinct ids
  List<int32_t> allowed, banned;
  List<uint32_t> mask;
};

struct Shared {
  RowShared row;
  FilterShared filter;
};

// adjusted [vocab] = what the row's temperature is applied to, in the order of
// kernels/ops/sample.h.
__device__ void Adjust(const Row& row, const float* logits, int64_t vocab, float* adjusted) {
  const bool all = row.allowed.size == 0;
  const auto masked = [&](int64_t id) {
    return row.mask.size == 0 || MaskHas(row.mask.data, id) ? logits[id] : -INFINITY;
  };
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
    adjusted[i] = all ? masked(i) : -INFINITY;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < row.allowed.size; i += kRowThreads) {
    adjusted[row.allowed.data[i]] = masked(row.allowed.data[i]);
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < row.banned.size; i += kRowThreads) {
    adjusted[row.banned.data[i]] = -INFINITY;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < row.biases.size; i += kRowThreads) {
    adjusted[row.biases.data[i].id] += row.biases.data[i].bias;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < row.counts.size; i += kRowThreads) {
    const TokenCount count = row.counts.data[i];
    float logit = adjusted[count.id];
    if (count.in_prompt + count.in_output > 0) {
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    }
    logit -= row.frequency_penalty * static_cast<float>(count.in_output);
    if (count.in_output > 0) logit -= row.presence_penalty;
    adjusted[count.id] = logit;
  }
  __syncthreads();
}

// The largest entry of a row, the lowest id on a tie.
__device__ Entry Largest(const float* row, int64_t vocab, RowShared& shared) {
  Entry best{-INFINITY, INT32_MAX};
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
    best = First()(best, {row[i], static_cast<int32_t>(i)});
  }
  return BlockReduce(best, shared.entries, First());
}

// work [N, vocab]; results [N, 1 + max_top]: the chosen token and its alternatives; outcomes [N].
__global__ void __launch_bounds__(kRowThreads)
    SampleKernel(const float* all_logits, int64_t vocab, const Row* rows, int64_t max_top,
                 float* all_work, TokenLogprob* results, int32_t* outcomes) {
  Shared& shared = BlockShared<Shared>();
  const int64_t n = blockIdx.x;
  const Row& row = rows[n];
  const float* logits = all_logits + row.logits_row * vocab;
  float* work = all_work + n * vocab;
  // All results are copied to the host, also those that were not asked for.
  TokenLogprob* out = results + n * (1 + max_top);
  for (int64_t i = threadIdx.x; i <= max_top; i += kRowThreads) out[i] = {};
  const auto end = [&](Outcome outcome) {
    if (threadIdx.x == 0) outcomes[n] = outcome;
  };

  const RowSoftmax softmax = SoftmaxOf(logits, vocab, shared.row);
  if (!softmax.finite) return end(kNotFinite);
  Adjust(row, logits, vocab, work);
  const Entry largest = Largest(work, vocab, shared.row);
  if (!isfinite(largest.value)) return end(kNothingAllowed);
  int32_t id = largest.id;
  if (row.temperature >= kGreedyTemperature) {
    for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
      work[i] = expf((work[i] - largest.value) / row.temperature);
    }
    __syncthreads();
    const Kept kept = FilterRow(work, vocab, row, shared.filter);
    const double uniform = DrawUniform(row.seed, row.sample_index, row.position);
    id = static_cast<int32_t>(DrawRow(work, vocab, kept, uniform, shared.filter));
  }
  TokenLogprob chosen{id, 0, 0};
  if (row.top_logprobs >= 0) chosen = LogprobOf(logits, vocab, id, softmax, shared.row);
  if (threadIdx.x == 0) out[0] = chosen;
  TopLogprobs(logits, vocab, row.top_logprobs, softmax, shared.row, out + 1);
  end(kChosen);
}

// Lists of all rows in one block of host memory, laid out as on the device, in 16 byte aligned
// pieces.
class Upload {
 public:
  template <typename T>
  size_t Add(std::span<const T> values) {
    constexpr size_t kAlignment = 16;
    const size_t at = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.resize(at + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size_bytes());
    return at;
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Biases of one id add up.
std::vector<LogitBias> DistinctBiases(std::span<const LogitBias> biases) {
  std::vector<LogitBias> sorted(biases.begin(), biases.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  std::vector<LogitBias> distinct;
  for (const LogitBias& bias : sorted) {
    if (!distinct.empty() && distinct.back().id == bias.id) {
      distinct.back().bias += bias.bias;
    } else {
      distinct.push_back(bias);
    }
  }
  return distinct;
}

// The most bytes of lists that are copied at once, unless a single row has more. Memory is taken
// for them and for one row with every id in each of its lists, so that none is taken later.
constexpr size_t kListBytes = size_t{4} << 20;

size_t ListBytes(const SampleRow& row) {
  constexpr size_t kGaps = 80;  // for the alignment of five lists
  return sizeof(Row) + row.counts.size_bytes() + row.logit_bias.size_bytes() +
         row.allowed_ids.size_bytes() + row.mask.size_bytes() + row.banned_ids.size_bytes() + kGaps;
}

size_t ScratchBytes(int64_t vocab) {
  const SampleRow longest;
  return kListBytes + ListBytes(longest) +
         static_cast<size_t>(vocab) *
             (sizeof(TokenCount) + sizeof(LogitBias) + 2 * sizeof(int32_t)) +
         static_cast<size_t>(MaskWords(vocab)) * sizeof(uint32_t);
}

// How many of the first rows are copied together.
size_t RowsAtOnce(std::span<const SampleRow> rows) {
  size_t count = 0, bytes = 0;
  while (count < rows.size() && (count == 0 || bytes + ListBytes(rows[count]) <= kListBytes)) {
    bytes += ListBytes(rows[count++]);
  }
  return count;
}

// Rows and their lists in the device's scratch slot 0.
absl::StatusOr<const Row*> UploadRows(CudaDevice& cuda, std::span<const SampleRow> rows,
                                      int64_t vocab) {
  // Offsets first: the block's address is known when its size is.
  struct Offsets {
    size_t counts, biases, allowed, mask, banned, bias_count;
  };
  std::vector<Row> device_rows(rows.size());
  std::vector<Offsets> offsets;
  Upload upload;
  upload.Add(std::span<const Row>(device_rows));
  for (const SampleRow& row : rows) {
    const std::vector<LogitBias> biases = DistinctBiases(row.logit_bias);
    offsets.push_back({upload.Add(row.counts), upload.Add(std::span<const LogitBias>(biases)),
                       upload.Add(row.allowed_ids), upload.Add(row.mask),
                       upload.Add(row.banned_ids), biases.size()});
  }
  absl::StatusOr<std::byte*> base = cuda.Scratch<std::byte>(
      0, static_cast<int64_t>(std::max(upload.bytes().size(), ScratchBytes(vocab))));
  if (!base.ok()) return base.status();
  for (size_t n = 0; n < rows.size(); ++n) {
    const SampleRow& from = rows[n];
    const auto list = [&]<typename T>(size_t offset, size_t size) {
      return List<T>{reinterpret_cast<const T*>(*base + offset), static_cast<int64_t>(size)};
    };
    device_rows[n] = {
      .logits_row = from.logits_row,
      .seed = from.seed,
      .sample_index = from.sample_index,
      .position = from.position,
      .top_logprobs = from.top_logprobs,
      .counts = list.template operator()<TokenCount>(offsets[n].counts,
                                                     HasPenalty(from) ? from.counts.size() : 0),
      .biases = list.template operator()<LogitBias>(offsets[n].biases, offsets[n].bias_count),
      .allowed = list.template operator()<int32_t>(offsets[n].allowed, from.allowed_ids.size()),
      .banned = list.template operator()<int32_t>(offsets[n].banned, from.banned_ids.size()),
      .mask = list.template operator()<uint32_t>(offsets[n].mask, from.mask.size()),
    };
    CopySampleNumbers(from, &device_rows[n]);
  }
  std::memcpy(upload.bytes().data(), device_rows.data(), device_rows.size() * sizeof(Row));
  const absl::Status status = cuda.Send(*base, upload.bytes().data(), upload.bytes().size());
  if (!status.ok()) return status;
  return reinterpret_cast<const Row*>(*base);
}

absl::Status StatusOf(int32_t outcome, int64_t logits_row) {
  if (outcome == kNotFinite) {
    return absl::InternalError(
        absl::StrCat("Sample: logits of row ", logits_row, " are not finite"));
  }
  if (outcome == kNothingAllowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("Sample: no id may be chosen for logits row ", logits_row));
  }
  return absl::OkStatus();
}

absl::Status SampleAtOnce(Device& device, const SampleArgs& args) {
  const auto rows = static_cast<int64_t>(args.rows.size());
  const int64_t vocab = args.logits.dim(1), each = 1 + args.max_top;
  CudaDevice& cuda = AsCuda(device);
  const absl::StatusOr<const Row*> device_rows = UploadRows(cuda, args.rows, vocab);
  if (!device_rows.ok()) return device_rows.status();
  absl::StatusOr<float*> work = cuda.Scratch<float>(1, rows * vocab);
  if (!work.ok()) return work.status();
  // Results and outcomes lie side by side, to come back in one copy.
  const size_t result_bytes = static_cast<size_t>(rows * each) * sizeof(TokenLogprob);
  std::vector<std::byte> host(result_bytes + static_cast<size_t>(rows) * sizeof(int32_t));
  absl::StatusOr<std::byte*> out = cuda.Scratch<std::byte>(2, static_cast<int64_t>(host.size()));
  if (!out.ok()) return out.status();
  absl::Status status = Launch("Sample", device, {.blocks = rows, .threads = kRowThreads},
                               SampleKernel, args.logits.data, vocab, *device_rows, args.max_top,
                               *work, reinterpret_cast<TokenLogprob*>(*out),
                               reinterpret_cast<int32_t*>(*out + result_bytes));
  if (!status.ok()) return status;
  status = cuda.Receive(host.data(), *out, host.size());
  if (!status.ok()) return status;

  const auto* results = reinterpret_cast<const TokenLogprob*>(host.data());
  const auto* outcomes = reinterpret_cast<const int32_t*>(host.data() + result_bytes);
  for (size_t n = 0; n < args.rows.size(); ++n) {
    args.row_status[n] = StatusOf(outcomes[n], args.rows[n].logits_row);
    if (!args.row_status[n].ok()) continue;
    const TokenLogprob* row = results + static_cast<int64_t>(n) * each;
    args.chosen[n] = row[0];
    std::copy_n(row + 1, std::max<int64_t>(0, args.rows[n].top_logprobs),
                args.top.begin() + static_cast<ptrdiff_t>(n) * args.max_top);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaSample(Device& device, const SampleArgs& args) {
  const auto top = static_cast<size_t>(args.max_top);
  for (size_t first = 0; first < args.rows.size();) {
    const size_t count = RowsAtOnce(args.rows.subspan(first));
    SampleArgs part = args;
    part.rows = args.rows.subspan(first, count);
    part.chosen = args.chosen.subspan(first, count);
    part.top = args.top.subspan(first * top, count * top);
    part.row_status = args.row_status.subspan(first, count);
    if (absl::Status status = SampleAtOnce(device, part); !status.ok()) return status;
    first += count;
  }
  return absl::OkStatus();
}

}  // namespace tvq::TVQ_CUDA
