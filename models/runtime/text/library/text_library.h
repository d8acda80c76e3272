#ifndef TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_
#define TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_

// The C interface of the library in Rust: tokenizer.json by Hugging Face's tokenizers, chat
// templates by minijinja.
//
// No side frees memory of the other: results go to sinks, which must not throw. No panic leaves the
// library. Several threads may call all functions at once, except close.

#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): C, as its users may be

#ifdef __cplusplus
extern "C" {
#endif

// What functions return. If it is not kTvqTextOk, the sink `error` receives the reason.
enum {
  kTvqTextOk = 0,
  kTvqTextInvalid = 1,    // the file or the request is wrong
  kTvqTextExhausted = 2,  // it takes more memory or time than it may
  kTvqTextInternal = 3,
  kTvqTextBusy = 4  // too much else is going on; a later call may succeed
};

typedef struct {
  const char* data;  // UTF-8, except the content of a file, which may be any bytes
  size_t size;
} TvqText;

// Receivers of results. Each is called at most once, before the function returns.
typedef struct {
  void* context;
  void (*text)(void* context, const char* data, size_t size);
} TvqTextSink;
typedef struct {
  void* context;
  void (*ids)(void* context, const int32_t* data, size_t count);
} TvqTextIdSink;

typedef struct TvqTextTokenizer TvqTextTokenizer;

typedef struct {
  uint64_t id_count;  // one more than the largest id
  int64_t begin_id;   // the special token that the file puts before a text; -1: none
  int strips_space;   // decoding drops one space at the very start of a text
} TvqTextTokenizerInfo;

typedef struct {
  uint32_t id;
  int special;    // the token is left out of decoded texts
  int run_byte;   // the token is a byte, shown only in a valid run (Tokenizer::IsRunByte)
  TvqText bytes;  // what it contributes to a text; valid during the call of the sink
  TvqText first;  // the same if it is the first token of a text
} TvqTextToken;

// `json` is the content of a tokenizer.json.
int32_t tvq_text_tokenizer_open(TvqText json, TvqTextTokenizer** tokenizer,
                                TvqTextTokenizerInfo* info, TvqTextSink error);
void tvq_text_tokenizer_close(TvqTextTokenizer* tokenizer);
// Calls `token` for all tokens, in no particular order.
int32_t tvq_text_tokenizer_tokens(const TvqTextTokenizer* tokenizer, void* context,
                                  void (*token)(void* context, const TvqTextToken* token),
                                  TvqTextSink error);
// The id of a token, or -1 if there is no such token.
int64_t tvq_text_tokenizer_id(const TvqTextTokenizer* tokenizer, TvqText token);
// `plain`: text that spells a special token does not become one.
int32_t tvq_text_tokenizer_encode(const TvqTextTokenizer* tokenizer, TvqText text, int plain,
                                  TvqTextIdSink ids, TvqTextSink error);
// Special tokens are left out.
int32_t tvq_text_tokenizer_decode(const TvqTextTokenizer* tokenizer, const int32_t* ids,
                                  size_t count, TvqTextSink text, TvqTextSink error);

typedef struct TvqTextTemplates TvqTextTemplates;

typedef struct {
  TvqText name;
  TvqText label;  // names the file in messages
  TvqText source;
} TvqTextTemplateSource;

// As ConversationRequest (conversation_writer.h).
typedef struct {
  TvqText messages;
  TvqText tools;
  TvqText template_kwargs;
  TvqText template_name;
  int add_generation_prompt;
  int continue_final_message;
} TvqTextWriteRequest;

// `variables`: a JSON object of variables that every template can read, such as bos_token.
int32_t tvq_text_templates_open(const TvqTextTemplateSource* sources, size_t count,
                                TvqText variables, const TvqTextTemplates** templates,
                                TvqTextSink error);
void tvq_text_templates_close(const TvqTextTemplates* templates);
// The tokenizer must stay open meanwhile.
int32_t tvq_text_templates_write(const TvqTextTemplates* templates,
                                 const TvqTextTokenizer* tokenizer, TvqTextWriteRequest request,
                                 TvqTextSink text, TvqTextIdSink ids, TvqTextSink error);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)

#endif  // TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_
