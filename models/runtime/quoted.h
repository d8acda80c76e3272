// How messages show text that came from outside.
#ifndef TVQ_MODELS_RUNTIME_QUOTED_H_
#define TVQ_MODELS_RUNTIME_QUOTED_H_

#include <string>
#include <string_view>

namespace tvq {

// `text` in quotes for a message: escaped, and shortened if it is long.
std::string Quoted(std::string_view text);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_QUOTED_H_
