#include "kernels/cpu/sample/filter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <type_traits>

namespace tvq {
namespace {

// So many entries are looked at together: most groups have none that is likely enough to be kept.
constexpr int64_t kGroup = 16;
// Candidates that top_p looks at first; most distributions need no more.
constexpr ptrdiff_t kFirstSorted = 64;

double Sum(const std::vector<Entry>& entries) {
  double sum = 0;
  for (const Entry& entry : entries) sum += entry.value;
  return sum;
}

struct Mass {
  double sum = 0;
  int64_t count = 0;
};

// Calls visit(first, size) for each group. The size is a compile-time constant for all but a
// shorter last one.
template <typename Visit>
void ForGroups(int64_t vocab, const Visit& visit) {
  int64_t first = 0;
  for (; first + kGroup <= vocab; first += kGroup) {
    visit(first, std::integral_constant<int64_t, kGroup>());
  }
  if (first < vocab) visit(first, vocab - first);
}

// Sum and number of the exponentials that are at least `least`. It adds in kGroup sums, which do
// not wait for one another.
Mass MassFrom(const float* e, int64_t vocab, float least) {
  double sums[kGroup] = {};
  int32_t counts[kGroup] = {};
  ForGroups(vocab, [&](int64_t first, auto size) {
    for (int64_t i = 0; i < size; ++i) {
      const float value = e[first + i];
      sums[i] += value >= least ? value : 0.0F;
      counts[i] += value >= least ? 1 : 0;
    }
  });
  Mass mass;
  for (const double sum : sums) mass.sum += sum;
  for (const int32_t count : counts) mass.count += count;
  return mass;
}

// The k-th largest value; `values` are left in another order.
float KthLargest(int64_t k, std::vector<float>& values) {
  const auto kth = values.begin() + (k - 1);
  std::nth_element(values.begin(), kth, values.end(), std::greater<>());
  return *kth;
}

// Drops entries below the k-th largest; all of its ties stay. Returns the k-th largest, or `least`
// where there are no more than k.
float KeepTopK(int64_t k, float least, std::vector<Entry>& kept) {
  if (k >= std::ssize(kept)) return least;
  std::vector<float> values;
  values.reserve(kept.size());
  for (const Entry& entry : kept) values.push_back(entry.value);
  const float kth = KthLargest(k, values);
  std::erase_if(kept, [kth](const Entry& entry) { return entry.value < kth; });
  return kth;
}

// The entries that are at least `least`, in the order of their ids. If k is not 0, only the k
// largest of these and the ties of the k-th. Entries are dropped on the way if k of those seen so
// far are larger.
std::vector<Entry> EntriesFrom(const float* e, int64_t vocab, float least, int64_t k = 0) {
  std::vector<Entry> entries;
  size_t enough = k > 0 ? static_cast<size_t>(4 * std::min(k, vocab) + kGroup) : SIZE_MAX;
  ForGroups(vocab, [&](int64_t first, auto size) {
    bool any = false;
    for (int64_t i = 0; i < size; ++i) any |= e[first + i] >= least;
    if (!any) return;
    for (int64_t i = first; i < first + size; ++i) {
      if (e[i] >= least) entries.push_back({e[i], static_cast<int32_t>(i)});
    }
    if (entries.size() < enough) return;
    least = KeepTopK(k, least, entries);
    enough = std::max(enough, 2 * entries.size());  // there may be many ties
  });
  if (k > 0) KeepTopK(k, least, entries);
  return entries;
}

// top_p may drop 1 - p of the sum. Entries that each have at most (1 - p) / n of it, of n in all,
// have no more than that together, so top_p keeps none below this bound. It is rounded down, so
// that the largest entry, which is no less than the mean, is never below it.
float LeastOfTopP(double p, const Mass& mass) {
  const double negligible = (1 - p) * mass.sum / static_cast<double>(mass.count);
  return std::nextafter(static_cast<float>(negligible), 0.0F);
}

// Keeps the smallest set of the largest entries whose sum reaches `target`, at least one entry, in
// the order of their ids. Sorts ever larger pieces until the target is reached.
void KeepLargest(double target, std::vector<Entry>& entries) {
  double sum = 0;
  ptrdiff_t piece = kFirstSorted;
  auto first = entries.begin();
  for (; first != entries.end(); piece *= 4) {
    const auto end = first + std::min(piece, entries.end() - first);
    if (end != entries.end()) std::nth_element(first, end, entries.end(), Before);
    std::sort(first, end, Before);
    while (first != end && (first == entries.begin() || sum < target)) sum += (first++)->value;
    if (first != end) break;
  }
  entries.erase(first, entries.end());
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.id < b.id; });
}

}  // namespace

bool HasFilter(const SampleRow& row, int64_t vocab) {
  return row.min_p > 0 || row.top_p < 1 || (row.top_k > 0 && row.top_k < vocab);
}

std::vector<Entry> FilterCandidates(const SampleRow& row, const float* e, int64_t vocab) {
  const double p = row.top_p;
  const float least = std::max(row.min_p, std::numeric_limits<float>::denorm_min());
  if (row.top_k <= 0 && row.top_p < 1) {
    const Mass mass = MassFrom(e, vocab, least);
    std::vector<Entry> kept = EntriesFrom(e, vocab, std::max(least, LeastOfTopP(p, mass)));
    KeepLargest(p * mass.sum, kept);
    return kept;
  }
  std::vector<Entry> kept = EntriesFrom(e, vocab, least, std::max(row.top_k, 0));
  if (row.top_p < 1) KeepLargest(p * Sum(kept), kept);
  return kept;
}

}  // namespace tvq
