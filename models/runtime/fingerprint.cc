#include "models/runtime/fingerprint.h"

#include "models/runtime/digest.h"

namespace tvq {

std::string Fingerprint(const Config& config, const WeightSource& weights,
                        std::string_view tokenizer_file) {
  return Digest()
      .Add("tvq fingerprint 1")
      .Add(config.Canonical())
      .Add(weights.Digest())
      .Add(tokenizer_file)
      .Hex();
}

}  // namespace tvq
