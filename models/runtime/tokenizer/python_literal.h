#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_PYTHON_LITERAL_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_PYTHON_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tvq {

// The bytes of a Python literal as repr writes it: 'text' or "text", whose bytes are its UTF-8, or
// b'bytes'. INVALID_ARGUMENT for anything else, and for a surrogate.
absl::StatusOr<std::string> ParsePythonLiteral(std::string_view literal);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_PYTHON_LITERAL_H_
