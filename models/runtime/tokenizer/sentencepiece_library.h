#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_SENTENCEPIECE_LIBRARY_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_SENTENCEPIECE_LIBRARY_H_

#include "absl/status/statusor.h"
#include "models/runtime/sentencepiece_shim/sentencepiece_shim.h"

namespace tvq {

// The functions of libtvq_sentencepiece.so, which is loaded on the first call and stays: a process
// has about 16 linker namespaces, and all models share this one. It is looked for in this order:
//   the path in the environment variable TVQ_SENTENCEPIECE_LIBRARY, if set the only place;
//   ../lib beside the program's folder; the program's own folder; where the build put it.
// FAILED_PRECONDITION naming the paths if it cannot be loaded. Thread-safe.
absl::StatusOr<const TvqSentencePieceApi*> SentencePieceLibrary();

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_SENTENCEPIECE_LIBRARY_H_
