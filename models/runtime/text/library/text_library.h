#ifndef TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_
#define TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_

// The C interface of the library in Rust: tokenizer.json by Hugging Face's tokenizers, chat
// templates by minijinja.
//
// Memory is not handed over: results go to sinks, which must not throw. No panic crosses the
// border. All functions may be called from several threads at once, but for close.

#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): C, as its users may be

#ifdef __cplusplus
extern "C" {
#endif

// What functions return. Of all but kTvqTextOk, the sink `error` is given the reason.
enum {
  kTvqTextOk = 0,
  kTvqTextInvalid = 1,    // the file or the request is wrong
  kTvqTextExhausted = 2,  // it takes more memory or time than it may
  kTvqTextInternal = 3,
  kTvqTextBusy = 4  // it would do later, with less going on
};

typedef struct {
  const char* data;  // UTF-8, but for the content of files
  size_t size;
} TvqText;

// Each is called at most once, before the function returns.
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
  int strips_space;   // one space at the very start of a decoded text is not of the text
} TvqTextTokenizerInfo;

typedef struct {
  uint32_t id;
  int special;    // left out of texts
  int run_byte;   // a byte that shows as part of a run of such tokens
  TvqText bytes;  // what it contributes; lives as long as the call of the sink
  TvqText first;  // the same as the first token of a text
} TvqTextToken;

// `json` is the content of a tokenizer.json.
int32_t tvq_text_tokenizer_open(TvqText json, TvqTextTokenizer** tokenizer,
                                TvqTextTokenizerInfo* info, TvqTextSink error);
void tvq_text_tokenizer_close(TvqTextTokenizer* tokenizer);
// All its tokens, in no order.
int32_t tvq_text_tokenizer_tokens(const TvqTextTokenizer* tokenizer, void* context,
                                  void (*token)(void* context, const TvqTextToken* token),
                                  TvqTextSink error);
// -1: it has no such token.
int64_t tvq_text_tokenizer_id(const TvqTextTokenizer* tokenizer, TvqText token);
// `plain`: what spells a special token does not become one.
int32_t tvq_text_tokenizer_encode(const TvqTextTokenizer* tokenizer, TvqText text, int plain,
                                  TvqTextIdSink ids, TvqTextSink error);
// Special tokens are left out.
int32_t tvq_text_tokenizer_decode(const TvqTextTokenizer* tokenizer, const int32_t* ids,
                                  size_t count, TvqTextSink text, TvqTextSink error);

typedef struct TvqTextTemplates TvqTextTemplates;

typedef struct {
  TvqText name;
  TvqText label;  // of the file, for messages
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

// `variables`: a JSON object of what every template can read, such as bos_token.
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
