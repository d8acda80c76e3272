// The directories of tests/golden/hugging_face.
#ifndef TVQ_TESTS_MODELS_RUNTIME_TOKENIZER_GOLDEN_TEXTS_H_
#define TVQ_TESTS_MODELS_RUNTIME_TOKENIZER_GOLDEN_TEXTS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "base/read_file.h"

namespace tvq::fixtures {

inline std::string GoldenFolder(const std::string& name) {
  return "tests/golden/hugging_face/" + name;
}

// Whose content ends a test that cannot read it.
inline std::string GoldenFile(const std::string& name, const std::string& file) {
  return *ReadFile(GoldenFolder(name) + "/" + file, int64_t{1} << 24);
}

inline nlohmann::json GoldenJson(const std::string& name, const std::string& file) {
  return nlohmann::json::parse(GoldenFile(name, file));
}

}  // namespace tvq::fixtures

#endif  // TVQ_TESTS_MODELS_RUNTIME_TOKENIZER_GOLDEN_TEXTS_H_
