#ifndef TVQ_TESTS_MODELS_RUNTIME_SAFETENSORS_BYTES_H_
#define TVQ_TESTS_MODELS_RUNTIME_SAFETENSORS_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tvq::fixtures {

// A file of the safetensors layout with any header and any data.
inline std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) {
    file.push_back(static_cast<char>((static_cast<uint64_t>(header.size()) >> (8 * i)) & 0xff));
  }
  file.append(header);
  file.append(data);
  return file;
}

}  // namespace tvq::fixtures

#endif  // TVQ_TESTS_MODELS_RUNTIME_SAFETENSORS_BYTES_H_
