#include "server/sessions/transfer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

class BlobStream : public SnapshotStream {
 public:
  BlobStream(const std::shared_ptr<const Blob>& head, const std::shared_ptr<const Blob>& image)
      : parts_{{NewSource(head), head->size()}, {NewSource(image), image->size()}},
        total_(head->size() + image->size()) {}

  int64_t total_bytes() const override { return total_; }

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
};

}  // namespace

absl::Status BlobUpload::Add(std::span<const char> bytes) {
  auto status = writer_.Add(std::as_bytes(bytes));
  if (status.ok()) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat("snapshot: ", status.message(), " (an upload may have ", limit_, " bytes)"));
}

absl::StatusOr<std::shared_ptr<const Blob>> ImageOf(const ModelInfo& model,
                                                    const StateContent& content) {
  BlobWriter writer(StateImageBytes(model, content));
  if (auto status = WriteStateImage(model, content, writer.sink()); !status.ok()) return status;
  return writer.Finish();
}

absl::StatusOr<std::unique_ptr<SnapshotStream>> NewSnapshotStream(
    const SnapshotHead& head, const std::shared_ptr<const Blob>& image) {
  BlobWriter writer(SnapshotHeadBytes(head));
  if (auto status = WriteSnapshotHead(head, writer.sink()); !status.ok()) return status;
  return std::make_unique<BlobStream>(writer.Finish(), image);
}

}  // namespace tvq
