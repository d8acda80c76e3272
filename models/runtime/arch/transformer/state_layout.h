// How a kind of attention whose states never grow lays out a session in one layer's memory, and
// what of it is the canonical form (docs/state.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_STATE_LAYOUT_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_STATE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/runtime/arch/transformer/synthetic_values.h"
#include "models/runtime/state.h"

namespace tvq::transformer {

// Immutable, hence thread-safe. `host` is a layer's memory, in the host's.
class StateLayout {
 public:
  virtual ~StateLayout() = default;

  int64_t layers() const { return layers_; }
  int64_t bytes() const { return layers_ * layer_bytes(); }
  virtual int64_t layer_bytes() const = 0;  // a multiple of 64

  // As State's methods of these names, of one layer. Visit leaves out the first `skipped` sections.
  // Load gets memory that is all zero.
  virtual std::vector<SectionInfo> Sections(int64_t layer, int64_t position) const = 0;
  virtual absl::Status Visit(int64_t layer, int64_t position, std::byte* host, int64_t skipped,
                             const State::SectionVisitor& visit) const = 0;
  virtual absl::Status Load(int64_t layer, int64_t position, const State::SectionReader& read,
                            std::byte* host) const = 0;
  virtual void Synthesize(int64_t position, SyntheticValues& values, std::byte* host) const = 0;

  // Of all layers in their order.
  std::vector<SectionInfo> AllSections(int64_t position) const {
    std::vector<SectionInfo> all;
    for (int64_t l = 0; l < layers_; ++l) {
      const std::vector<SectionInfo> sections = Sections(l, position);
      all.insert(all.end(), sections.begin(), sections.end());
    }
    return all;
  }

 protected:
  explicit StateLayout(int64_t layers) : layers_(layers) {}

 private:
  const int64_t layers_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_STATE_LAYOUT_H_
