// A state and what a session holds besides, as bytes (docs/snapshot-format.md).
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_STATE_IMAGE_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_STATE_IMAGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "models/runtime/state.h"
#include "server/sessions/snapshot/byte_stream.h"
#include "server/sessions/snapshot/frame.h"

namespace tvq {

// What a session continues from.
struct StateContent {
  const State* state = nullptr;  // null at position 0
  std::span<const int32_t> pending;
  // After the last token that the state was fed, [vocab_size]; there exactly if the state was fed
  // and nothing is pending.
  std::span<const float> logits;
};

// Of the image that WriteStateImage writes.
int64_t StateImageBytes(const ModelInfo& model, const StateContent& content);

// A bound of every image of the model, whatever the position; where states grow, of what does not.
absl::StatusOr<int64_t> LargestStateImage(Model& model);

// Streams the image, a section's piece at a time. An image is equal bytes for equal content.
absl::Status WriteStateImage(const ModelInfo& model, const StateContent& content,
                             const ByteSink& sink);

// The same bytes, made as they are read: of the state, one section or about kPieceBytes are in
// memory at a time. One thread at a time.
class StateImageSource : public ByteSource {
 public:
  static constexpr size_t kPieceBytes = 1 << 20;

  // `model` and what `content` refers to must outlive this.
  StateImageSource(const ModelInfo& model, const StateContent& content);
  StateImageSource(const StateImageSource&) = delete;
  StateImageSource& operator=(const StateImageSource&) = delete;

  absl::Status Read(std::span<std::byte> out) override;

 private:
  absl::Status Refill();

  const ModelInfo& model_;
  const StateContent content_;
  const std::vector<SectionInfo> sections_;
  std::vector<std::byte> made_;
  size_t read_ = 0;  // bytes of made_
  const ByteSink sink_;
  FrameWriter frame_;
  size_t next_ = 0;  // section
  bool ended_ = false;
};

// Reads an image that is not trusted. Errors are INVALID_ARGUMENT for what is no image,
// is damaged or holds what no state can, FAILED_PRECONDITION for one of another model, dtype,
// prefill_chunk or a later format, and the source's own if it cannot be read.
class StateImageReader {
 public:
  // Reads and checks all but the state. `source` and `model` must outlive the reader.
  static absl::StatusOr<StateImageReader> Open(ByteSource* source, const ModelInfo& model);

  int64_t position() const { return position_; }  // tokens that the state was fed
  std::vector<int32_t>& pending() { return pending_; }
  std::vector<float>& logits() { return logits_; }  // empty, or [vocab_size]
  int64_t image_bytes() const { return image_bytes_; }

  // Compares what the header says of the state with the sections that the model has at this
  // position, so that nothing larger than the image is reserved because the header says so.
  absl::Status ExpectSections(std::span<const SectionInfo> state) const;

  // Makes `state` the image's, and reads to the image's end. `state` is one of the model given to
  // Open. After an error it is as after Reset. Once.
  absl::Status ReadState(State* state) { return ReadState(state, position_); }
  // The same for its first tokens, at most position(), of a model whose states can be cut.
  absl::Status ReadState(State* state, int64_t tokens);
  // In its stead, where there is no state: finds all damage, but not what no state can hold.
  absl::Status CheckState();

 private:
  StateImageReader(ByteSource* source, const ModelInfo& model);
  absl::Status ReadHeader();
  absl::Status ReadPending();
  absl::Status ReadLogits();
  absl::Status CheckSection(size_t index, const SectionInfo& expected) const;
  absl::Status NextSection(const SectionInfo& expected);
  // Of a state at position `tokens`.
  absl::Status ReadSection(const SectionInfo& section, int64_t tokens, std::span<std::byte> out);
  absl::Status Skip(const std::string& section, int64_t bytes);
  absl::Status CheckCount(size_t wanted) const;
  absl::Status ReadEnd();

  FrameReader frame_;
  const ModelInfo* model_;
  std::vector<SectionInfo> sections_;
  size_t next_ = 0;  // section
  int64_t position_ = 0;
  int64_t image_bytes_ = 0;
  std::vector<int32_t> pending_;
  std::vector<float> logits_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_STATE_IMAGE_H_
