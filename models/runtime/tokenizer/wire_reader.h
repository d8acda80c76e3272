#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_WIRE_READER_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tvq {

// Walks the fields of one protocol buffer message in its wire format
// (protobuf.dev/programming-guides/encoding). It needs no generated code and no protobuf library:
// the process may already hold another version of that.
class WireReader {
 public:
  enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  struct Field {
    uint32_t number = 0;
    Type type = Type::kVarint;
    uint64_t value = 0;      // of kVarint, kFixed32, kFixed64
    std::string_view bytes;  // of kBytes
    size_t offset = 0;       // of the field's tag, in the file
  };

  // `offset` is where the message begins in the file.
  explicit WireReader(std::string_view message, size_t offset = 0)
      : message_(message), base_(offset) {}

  // Reads the next field. False at the end of the message, and if the bytes are no field: then
  // !ok().
  bool Next(Field& field);

  bool ok() const { return ok_; }
  // The offset in the file of the next field, or of the one that is broken.
  size_t offset() const { return base_ + at_; }
  // Where a field's bytes begin in the file.
  size_t OffsetOf(const Field& field) const {
    return base_ + static_cast<size_t>(field.bytes.data() - message_.data());
  }

 private:
  bool Varint(size_t& at, uint64_t& value) const;
  bool Fixed(size_t& at, size_t size, uint64_t& value) const;
  bool Read(size_t& at, Field& field) const;

  std::string_view message_;
  size_t base_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_WIRE_READER_H_
