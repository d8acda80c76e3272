#ifndef TVQ_MODELS_RUNTIME_SENTENCEPIECE_SHIM_SENTENCEPIECE_SHIM_H_
#define TVQ_MODELS_RUNTIME_SENTENCEPIECE_SHIM_SENTENCEPIECE_SHIM_H_

// The C interface of libtvq_sentencepiece.so.
//
// libsentencepiece exports its own copy of protobuf, and crashes a process that has another copy,
// as a process with gRPC has. So it is linked only into this small library, which is loaded by
// dlmopen into a linker namespace of its own. The two sides have separate C and C++ libraries: only
// C types pass between them, no side frees memory of the other, and no exception may leave the
// library.

#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): C, as its users may be

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TvqSentencePiece TvqSentencePiece;

// Receives ids; is called at most once, before encode returns. Must not throw.
typedef void (*TvqIdSink)(void* context, const int32_t* ids, size_t count);

typedef struct {
  // Parses a .model; null on failure, with the reason in `error` (zero-terminated, cut to its
  // size).
  TvqSentencePiece* (*open)(const char* model, size_t model_size, char* error, size_t error_size);
  void (*close)(TvqSentencePiece* processor);
  int32_t (*piece_count)(const TvqSentencePiece* processor);
  // Returns 0, or -1 with the reason in `error`. May be called from several threads at once.
  int (*encode)(const TvqSentencePiece* processor, const char* text, size_t text_size,
                TvqIdSink sink, void* context, char* error, size_t error_size);
  // The offset in the text of the byte where piece number `index` of encode begins; -1 if unknown.
  int64_t (*piece_begin)(const TvqSentencePiece* processor, const char* text, size_t text_size,
                         size_t index);
} TvqSentencePieceApi;

// The library's one symbol.
extern const TvqSentencePieceApi tvq_sentencepiece_api;

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)

#endif  // TVQ_MODELS_RUNTIME_SENTENCEPIECE_SHIM_SENTENCEPIECE_SHIM_H_
