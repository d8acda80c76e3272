#ifndef TVQ_BASE_NEAREST_H_
#define TVQ_BASE_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace tvq {

// The word that a person meant with `word`: the one of `words` that needs the fewest changes. Each
// change replaces, adds or leaves out a letter, or swaps it with the next one ('_' counts as '-').
// "" if all need more than one change for every three letters.
std::string Nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace tvq

#endif  // TVQ_BASE_NEAREST_H_
