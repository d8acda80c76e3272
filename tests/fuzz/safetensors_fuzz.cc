// Any bytes as a safetensors file: every tensor that is accepted lies inside them.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "models/runtime/safetensors.h"
#include "models/runtime/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto content =
      tvq::ParseSafetensors(std::as_bytes(std::span(data, size)), "model.safetensors");
  if (!content.ok()) return 0;
  for (const auto& [name, tensor] : content->tensors) {
    const auto* begin = static_cast<const uint8_t*>(tensor.data);
    if (begin < data || tensor.ByteSize() > static_cast<size_t>(data + size - begin)) std::abort();
    const auto values = tvq::ToFloat32(tensor);
    if (values.ok()) (void)tvq::CheckFinite(name, *values);
  }
  return 0;
}
