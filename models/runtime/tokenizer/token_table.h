#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_TOKEN_TABLE_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_TOKEN_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// The bytes of the ids 0 .. size() - 1. An id that was never set is a special without text.
class TokenTable {
 public:
  explicit TokenTable(int64_t size) : entries_(static_cast<size_t>(size)) {}

  void Set(int64_t id, std::string bytes, bool special = false) {
    entries_[static_cast<size_t>(id)] = {std::move(bytes), special};
  }
  int64_t size() const { return std::ssize(entries_); }
  std::string_view bytes(int32_t id) const { return entries_[static_cast<size_t>(id)].bytes; }
  bool special(int32_t id) const { return entries_[static_cast<size_t>(id)].special; }

 private:
  struct Entry {
    std::string bytes;
    bool special = true;
  };
  std::vector<Entry> entries_;
};

// A base of tokenizers, with the methods that need only a table of tokens. Ids from the table's end
// to vocab_size have no text.
class TableTokenizer : public Tokenizer {
 public:
  TableTokenizer(TokenTable table, int64_t vocab_size)
      : table_(std::move(table)), vocab_size_(static_cast<int32_t>(vocab_size)) {}

  std::string_view TokenBytes(int32_t id) const final {
    return id < table_.size() ? table_.bytes(id) : std::string_view();
  }
  bool IsSpecial(int32_t id) const final { return id >= table_.size() || table_.special(id); }
  int32_t vocab_size() const final { return vocab_size_; }

 protected:
  const TokenTable& table() const { return table_; }

 private:
  const TokenTable table_;
  const int32_t vocab_size_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_TOKEN_TABLE_H_
