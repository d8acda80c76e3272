#include "server/sessions/snapshot/transfer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq {
namespace {

class PartsStream : public SnapshotStream {
 public:
  PartsStream(const std::shared_ptr<const Blob>& head, std::unique_ptr<ByteSource> image,
              int64_t image_bytes)
      : parts_{{NewSource(head), head->size()}, {std::move(image), image_bytes}},
        total_(head->size() + image_bytes),
        kept_(head->memory_bytes()) {}

  int64_t total_bytes() const override { return total_; }
  int64_t kept_bytes() const override { return kept_; }

  absl::StatusOr<std::string> Next(int64_t max) override {
    std::string bytes;
    for (Part& part : parts_) {
      const int64_t room = max - static_cast<int64_t>(bytes.size());
      const int64_t count = std::min(part.left, room);
      if (count == 0) continue;
      const size_t at = bytes.size();
      bytes.resize(at + static_cast<size_t>(count));
      auto status = part.source->Read(std::as_writable_bytes(std::span(bytes).subspan(at)));
      if (!status.ok()) return status;
      part.left -= count;
      if (part.left == 0) part.source.reset();  // with what it kept
    }
    return bytes;
  }

 private:
  struct Part {
    std::unique_ptr<ByteSource> source;
    int64_t left;
  };
  Part parts_[2];
  const int64_t total_;
  const int64_t kept_;
};

class ContinuationSource : public ByteSource {
 public:
  ContinuationSource(const ModelInfo& model, Continuation content)
      : content_(std::move(content)), image_(model, StateContentOf(content_)) {}
  absl::Status Read(std::span<std::byte> out) override { return image_.Read(out); }

 private:
  const Continuation content_;
  StateImageSource image_;
};

}  // namespace

absl::Status BlobUpload::Add(std::span<const char> bytes) {
  if (static_cast<int64_t>(bytes.size()) > limit_ - writer_.size()) {
    return Refused(
        Reason::kSnapshotTooLarge, "snapshot",
        absl::StrCat("has more than ", limit_, " bytes, the most that an upload may have"));
  }
  auto status = writer_.Add(std::as_bytes(bytes));
  if (status.ok()) return status;
  return Refused(Reason::kMemoryFull, "snapshot", absl::StrCat(status.message(), "; try again"));
}

StateContent StateContentOf(const Continuation& content) {
  return {.state = content.held.state.get(), .pending = content.pending, .logits = content.logits};
}

std::unique_ptr<ByteSource> NewImageSource(const ModelInfo& model, Continuation content) {
  return std::make_unique<ContinuationSource>(model, std::move(content));
}

absl::StatusOr<std::unique_ptr<SnapshotStream>> NewSnapshotStream(
    const SnapshotHead& head, std::unique_ptr<ByteSource> image) {
  BlobWriter writer(SnapshotHeadBytes(head));
  if (auto status = WriteSnapshotHead(head, writer.sink()); !status.ok()) return status;
  return std::make_unique<PartsStream>(writer.Finish(), std::move(image), head.state_bytes);
}

}  // namespace tvq
