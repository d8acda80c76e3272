#ifndef TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_
#define TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_

// The C interface of the library in Rust: tokenizer.json by Hugging Face's tokenizers, chat
// templates by minijinja, grammars by llguidance.
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

// All tokens of a model, ordered for grammars.
typedef struct TvqTextVocabulary TvqTextVocabulary;
// What an output must be, of one vocabulary.
typedef struct TvqTextGrammar TvqTextGrammar;
// Where one output stands in its grammar. One thread at a time.
typedef struct TvqTextMatcher TvqTextMatcher;

typedef struct {
  uint32_t id;
  TvqText bytes;  // what it contributes to a text; none: no grammar has it
} TvqTextTokenText;

enum { kTvqTextJsonSchema = 0, kTvqTextRegex = 1, kTvqTextLark = 2 };

// `end_ids`: the tokens that end an output, at least one.
int32_t tvq_text_vocabulary_open(const TvqTextTokenText* tokens, size_t count, uint32_t id_count,
                                 const uint32_t* end_ids, size_t end_count,
                                 TvqTextVocabulary** vocabulary, TvqTextSink error);
// Its grammars may outlive it.
void tvq_text_vocabulary_close(TvqTextVocabulary* vocabulary);
int32_t tvq_text_grammar_open(const TvqTextVocabulary* vocabulary, int32_t language, TvqText source,
                              TvqTextGrammar** grammar, TvqTextSink error);
void tvq_text_grammar_close(TvqTextGrammar* grammar);
// The memory that it takes.
int64_t tvq_text_grammar_bytes(const TvqTextGrammar* grammar);
// At the start of an output. It may outlive the grammar.
int32_t tvq_text_matcher_open(const TvqTextGrammar* grammar, TvqTextMatcher** matcher,
                              TvqTextSink error);
void tvq_text_matcher_close(TvqTextMatcher* matcher);
// Sets bit i % 32 of words[i / 32] if token i may be next, and no other; `count` words, enough for
// all ids. Where nothing may follow, the tokens that end the output are allowed.
int32_t tvq_text_matcher_mask(TvqTextMatcher* matcher, uint32_t* words, size_t count,
                              TvqTextSink error);
// The output goes on with a token that the mask allows. After an error the matcher is of no use.
int32_t tvq_text_matcher_accept(TvqTextMatcher* matcher, uint32_t id, TvqTextSink error);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)

#endif  // TVQ_MODELS_RUNTIME_TEXT_LIBRARY_TEXT_LIBRARY_H_
