// One session's decoding state, opaque to all code but the model that made it.
#ifndef TVQ_MODELS_RUNTIME_STATE_H_
#define TVQ_MODELS_RUNTIME_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace tvq {

// A named run of bytes of a state in its canonical form, which does not depend on how the state was
// computed. Elements are little-endian.
struct SectionInfo {
  std::string name;  // for example "layers.3.acc_sum"
  int64_t element_bytes = 1;
  std::vector<int64_t> shape;  // in elements
  int64_t bytes = 0;           // of all elements

  bool operator==(const SectionInfo&) const = default;
};

inline SectionInfo MakeSection(std::string name, int64_t element_bytes,
                               std::vector<int64_t> shape) {
  int64_t bytes = element_bytes;
  for (const int64_t count : shape) bytes *= count;
  return {std::move(name), element_bytes, std::move(shape), bytes};
}

// Made by Model::NewState and used only with that model. One thread at a time may change a state.
// While no thread changes it, any threads may call its const methods and copy it to other states.
class State {
 public:
  virtual ~State() = default;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Tokens fed so far; the next token takes this position.
  virtual int64_t position() const = 0;

  // Device memory held, as Model::StateBytes(position()) says.
  virtual int64_t bytes() const = 0;

  // The part of bytes() that is sealed: this memory no longer changes, and copies of the state
  // share it. 0 for states of a constant size.
  virtual int64_t sealed_bytes() const { return 0; }
  // Seals the memory that later tokens can no longer change, so that copies of the state share it.
  // `pay` is called with the bytes of each piece that is sealed. What it returns is kept until the
  // piece is freed, when the last state that holds it lets go. Tokens whose memory is sealed must
  // not be taken back (Drafts::Rewind).
  using Pay = std::function<std::shared_ptr<const void>(int64_t bytes)>;
  virtual void Seal(const Pay& pay) { static_cast<void>(pay); }

  // Makes this state an exact copy of `other`, a state of the same model. The two then share what
  // is sealed.
  virtual absl::Status CopyFrom(const State& other) = 0;

  // Makes this state what `other` was after its first `tokens` tokens, to the last bit. Only for
  // models whose states can be cut (Model::StatesCut).
  virtual absl::Status CopyFirst(const State& other, int64_t tokens) {
    static_cast<void>(other), static_cast<void>(tokens);
    return absl::UnimplementedError("the states of this model cannot be cut");
  }

  // Back to position 0, all zero.
  virtual absl::Status Reset() = 0;

  // The sections of this state, in a fixed order. Names and sizes follow from the position.
  virtual std::vector<SectionInfo> Sections() const = 0;

  // Calls `visit` for every section from index `first` on, in the order of Sections. A section's
  // bytes come in one or several calls, and are valid during the call. An error that `visit`
  // returns ends the visit and is returned.
  using SectionVisitor =
      std::function<absl::Status(const SectionInfo& section, std::span<const std::byte> bytes)>;
  virtual absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const = 0;
  absl::Status VisitSections(const SectionVisitor& visit) const {
    return VisitSectionsFrom(0, visit);
  }

  // Sets this state from sections: `read` is called for every section that a state at `position`
  // has, in the order of Sections, and must fill all of `bytes`. INVALID_ARGUMENT, naming section
  // and element, for a content that no state can have: a code outside the codebook, a value that is
  // not finite, counts that do not add up to the position. After an error the state is as after
  // Reset.
  using SectionReader =
      std::function<absl::Status(const SectionInfo& section, std::span<std::byte> bytes)>;
  virtual absl::Status Load(int64_t position, const SectionReader& read) = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STATE_H_
