#include "base/nearest.h"

#include <algorithm>
#include <cstddef>

namespace tvq {
namespace {

// The distance of Damerau and Levenshtein in which no letters between swapped ones change (optimal
// string alignment).
size_t Changes(std::string_view from, std::string_view to) {
  std::vector<size_t> before_last(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t changed = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& words) {
  std::string plain(word);
  std::replace(plain.begin(), plain.end(), '_', '-');
  std::string nearest;
  size_t fewest = word.size() / 3 + 1;
  for (const std::string& candidate : words) {
    const size_t changes = Changes(plain, candidate);
    if (changes >= fewest) continue;
    fewest = changes;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace tvq
