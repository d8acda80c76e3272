#ifndef TVQ_MODELS_RUNTIME_DIGEST_H_
#define TVQ_MODELS_RUNTIME_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace tvq {

// XXH3-128 of a list of fields. Each field of bytes is hashed behind its length, so that two
// different lists are never hashed as the same bytes.
class Digest {
 public:
  Digest();

  Digest& Add(std::string_view bytes);
  Digest& Add(int64_t value);

  // 32 lowercase hexadecimal digits, the higher half first.
  std::string Hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_DIGEST_H_
