#ifndef TVQ_BASE_NEAREST_H_
#define TVQ_BASE_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace tvq {

// The word that a person meant with `word`: the one of `words` that fewest letters need to be
// changed for, put in, left out or swapped with the next one ('_' counts as '-'). "" if none is so
// near: at most one change for every three letters.
std::string Nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace tvq

#endif  // TVQ_BASE_NEAREST_H_
