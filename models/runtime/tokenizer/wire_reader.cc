#include "models/runtime/tokenizer/wire_reader.h"

namespace tvq {

bool WireReader::Next(Field& field) {
  if (!ok_ || at_ == message_.size()) return false;
  size_t at = at_;
  field.offset = offset();
  ok_ = Read(at, field);
  if (ok_) at_ = at;
  return ok_;
}

bool WireReader::Read(size_t& at, Field& field) const {
  uint64_t tag = 0;
  if (!Varint(at, tag) || (tag >> 3) == 0 || (tag >> 3) > 0x1fffffff) return false;
  field.number = static_cast<uint32_t>(tag >> 3);
  field.type = static_cast<Type>(tag & 7);
  switch (field.type) {
    case Type::kVarint:
      return Varint(at, field.value);
    case Type::kFixed64:
      return Fixed(at, 8, field.value);
    case Type::kFixed32:
      return Fixed(at, 4, field.value);
    case Type::kBytes: {
      uint64_t size = 0;
      if (!Varint(at, size) || size > message_.size() - at) return false;
      field.bytes = message_.substr(at, size);
      at += size;
      return true;
    }
  }
  return false;  // groups, and wire types that do not exist
}

bool WireReader::Varint(size_t& at, uint64_t& value) const {
  constexpr int kLongest = 10;  // bytes of 7 bits for 64 bits
  value = 0;
  for (int i = 0; i < kLongest && at < message_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message_[at++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::Fixed(size_t& at, size_t size, uint64_t& value) const {
  if (size > message_.size() - at) return false;
  value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(message_[at++])) << (8 * i);
  }
  return true;
}

}  // namespace tvq
