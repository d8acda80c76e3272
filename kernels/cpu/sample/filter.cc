#include "kernels/cpu/sample/filter.h"

#include <algorithm>
#include <cstddef>

namespace tvq {
namespace {

// Candidates that top_p looks at first; most distributions need no more.
constexpr ptrdiff_t kFirstSorted = 64;

double Sum(const std::vector<Entry>& entries) {
  double sum = 0;
  for (const Entry& entry : entries) sum += entry.value;
  return sum;
}

// All ties of the k-th largest stay.
void KeepTopK(int64_t k, std::vector<Entry>& kept) {
  if (k >= static_cast<int64_t>(kept.size())) return;
  std::vector<Entry> order = kept;
  const auto kth = order.begin() + (k - 1);
  std::nth_element(order.begin(), kth, order.end(), Before);
  const float least = kth->value;
  std::erase_if(kept, [least](const Entry& entry) { return entry.value < least; });
}

// The smallest set of the largest that reaches p of the sum. Entries of at most (1 - p) / n of the
// sum cannot all together hold more than the rest may lose: none of them is in the set. Of the
// others ever larger pieces are put in order until p is reached.
void KeepTopP(double p, std::vector<Entry>& kept) {
  const double total = Sum(kept);
  const double negligible = (1 - p) * total / static_cast<double>(kept.size());
  std::vector<Entry> order;
  for (const Entry& entry : kept) {
    if (entry.value > negligible) order.push_back(entry);
  }
  double sum = 0;
  Entry last = order.empty() ? *std::min_element(kept.begin(), kept.end(), Before) : Entry{};
  ptrdiff_t piece = kFirstSorted;
  for (auto first = order.begin(); first != order.end(); piece *= 4) {
    const auto end = first + std::min(piece, order.end() - first);
    if (end != order.end()) std::nth_element(first, end, order.end(), Before);
    std::sort(first, end, Before);
    // The first one stays even where p is 0.
    while (first != end && (first == order.begin() || sum < p * total)) {
      sum += first->value;
      last = *first++;
    }
    if (first != end) break;
  }
  std::erase_if(kept, [&last](const Entry& entry) { return Before(last, entry); });
}

}  // namespace

std::vector<Entry> FilterCandidates(const SampleRow& row, const float* e, int64_t vocab) {
  std::vector<Entry> kept;
  for (int64_t i = 0; i < vocab; ++i) {
    if (e[i] > 0 && e[i] >= row.min_p) kept.push_back({e[i], static_cast<int32_t>(i)});
  }
  if (row.top_k > 0) KeepTopK(row.top_k, kept);
  if (row.top_p < 1) KeepTopP(row.top_p, kept);
  return kept;
}

}  // namespace tvq
