// How messages show text that came from outside.
#ifndef TVQ_BASE_QUOTED_H_
#define TVQ_BASE_QUOTED_H_

#include <string>
#include <string_view>

namespace tvq {

// `text` in quotes for a message, shortened if it is long. Characters are shown as they are, but
// those that would not be seen or would end the quotes: \", \\, \n, \r, \t and \u{200B} for a code
// point stand for these, \xFF for a byte that is of no character.
std::string Quoted(std::string_view text);

}  // namespace tvq

#endif  // TVQ_BASE_QUOTED_H_
