// HeadScores writes the scores of all rows straight into `out`; then a pass over each head's scores
// follows, while they are in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/features/features.cc"
#include "kernels/ops/attention/features.h"

#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/fast_math-inl.h"
#include "kernels/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using ScoreTag = hn::CappedTag<float, 16>;

// Calls visit(i, count) for each vector of a row, which begins at i and has `count` values of the
// row.
template <typename Visit>
HWY_INLINE void ForVectors(int64_t width, const Visit& visit) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(ScoreTag()));
  for (int64_t i = 0; i < width; i += lanes) {
    visit(i, static_cast<size_t>(std::min(lanes, width - i)));
  }
}

void EluPlusOne(const float* x, int64_t width, float* out) {
  const ScoreTag d;
  ForVectors(width, [&](int64_t i, size_t count) HWY_ATTR {
    const auto v = LoadFirst(d, x + i, count);
    const auto above = hn::Add(v, hn::Set(d, 1.0F));
    StoreFirst(hn::IfThenElse(hn::Gt(v, hn::Zero(d)), above, FastExp(d, v)), d, out + i, count);
  });
}

float Largest(const float* scores, int64_t width) {
  const ScoreTag d;
  const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  auto largest = lowest;
  ForVectors(width, [&](int64_t i, size_t count) HWY_ATTR {
    const auto v = LoadFirst(d, scores + i, count);
    largest = hn::Max(largest, hn::IfThenElse(hn::FirstN(d, count), v, lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// scores = exp((scores - less) * factor); returns their sum.
float Exponentiate(float less, float factor, int64_t width, float* scores) {
  const ScoreTag d;
  auto sum = hn::Zero(d);
  ForVectors(width, [&](int64_t i, size_t count) HWY_ATTR {
    const auto above = hn::Sub(LoadFirst(d, scores + i, count), hn::Set(d, less));
    const auto e = FastExp(d, hn::Mul(above, hn::Set(d, factor)));
    StoreFirst(e, d, scores + i, count);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, count), e));
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Turns x . R_s into shares. It first makes -|x - R_s|^2 / 2, without the term that is the same for
// all rows. It subtracts the largest before it divides by sigma^2, so that the quotient does not
// overflow however small sigma is.
void Share(const float* half_norm, float sigma, int64_t width, float* scores) {
  const ScoreTag d;
  ForVectors(width, [&](int64_t i, size_t count) HWY_ATTR {
    const auto nearness =
        hn::Sub(LoadFirst(d, scores + i, count), LoadFirst(d, half_norm + i, count));
    StoreFirst(nearness, d, scores + i, count);
  });
  const float total = Exponentiate(Largest(scores, width), 1 / (sigma * sigma), width, scores);
  DivideRow(total, width, scores);
}

float HalfSquare(const float* x, int64_t width) {
  const ScoreTag d;
  auto sum = hn::Zero(d);
  ForVectors(width, [&](int64_t i, size_t count) HWY_ATTR {
    const auto v = LoadFirst(d, x + i, count);
    sum = hn::MulAdd(v, v, sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum)) / 2;
}

// Head p of row n.
void FinishHead(const FeaturesArgs& args, int64_t n, int64_t p) {
  const HeadKeys& rows = *args.rows;
  float* scores = args.out.row(n) + p * rows.rows;
  if (args.map == FeatureMap::kPositive) {
    Exponentiate(HalfSquare(args.x.row(n) + p * rows.width, rows.width), 1, rows.rows, scores);
  } else {
    const int64_t group = p / (args.x.dim(1) / rows.heads);
    Share(rows.half_norm.as<const float>() + group * rows.rows, args.sigma, rows.rows, scores);
  }
}

void FeaturesAll(CpuDevice& cpu, const FeaturesArgs& args) {
  // An exponential takes about as long as this many multiply-adds.
  constexpr int64_t kExponential = 16;
  const int64_t heads = args.x.dim(1);
  const int64_t work = args.out.size() * kExponential;
  if (args.map == FeatureMap::kEluPlusOne) {
    const int64_t width = heads * args.x.dim(2);
    RunTasks(cpu, args.x.dim(0), work,
             [&](int64_t n) { EluPlusOne(args.x.row(n), width, args.out.row(n)); });
  } else {
    RunTasks(cpu, args.x.dim(0) * heads, work,
             [&](int64_t head) { FinishHead(args, head / heads, head % heads); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(FeaturesAll);

absl::Status CpuFeatures(Device& device, const FeaturesArgs& args) {
  if (args.rows != nullptr) {
    absl::Status s = CpuHeadScores(device, {args.x, args.rows, args.out});
    if (!s.ok()) return s;
  }
  HWY_DYNAMIC_DISPATCH(FeaturesAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
