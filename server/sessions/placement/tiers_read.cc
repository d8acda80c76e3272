// States on their way back from where they lie.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/state_image.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int64_t kCopyBytes = 1 << 20;
// A state may have as many stored copies as there are sessions. A read gives up after so many that
// are damaged, or so many that are not there any more.
constexpr int kMostCopies = 8;
constexpr int kMostMissing = 64;

StateContent Content(const HeldState& held, const CheckpointHead& head) {
  StateContent content{.state = held.state.get(), .pending = head.pending};
  if (head.logits != nullptr) content.logits = *head.logits;
  return content;
}

// What reading a state failed with, or that the device has failed, which is why.
absl::Status Explained(absl::Status status, const Engine& engine) {
  if (!absl::IsInternal(status)) return status;
  absl::Status health = engine.Health();
  return health.ok() ? status : health;
}

}  // namespace

absl::Status AsDataLoss(const absl::Status& status, const std::string& what) {
  if (status.code() != absl::StatusCode::kInvalidArgument &&
      status.code() != absl::StatusCode::kOutOfRange) {
    return status;
  }
  return absl::DataLossError(absl::StrCat(what, ": ", status.message()));
}

CheckpointHead HeadOf(StateImageReader& image) {
  CheckpointHead head{.position = image.position(), .pending = std::move(image.pending())};
  if (!image.logits().empty()) {
    head.logits = std::make_shared<const std::vector<float>>(std::move(image.logits()));
  }
  return head;
}

// A state's image for a reader that takes its time: between two reads the state may move, as any
// other. But what was brought to host memory for the reader stays there to the end.
class Tiers::SlowSource : public ByteSource {
 public:
  SlowSource(std::shared_ptr<Tiers> tiers, std::shared_ptr<Checkpoint> checkpoint)
      : tiers_(std::move(tiers)), checkpoint_(std::move(checkpoint)) {}

  // Finds the state, and returns the bytes of its image. Ahead of Read.
  absl::StatusOr<int64_t> Open() {
    const Pin pin(tiers_, checkpoint_);
    return OpenWhereItIs();
  }

  absl::Status Read(std::span<std::byte> out) override {
    const absl::Status status = stored_ != nullptr ? stored_->Read(out) : ReadInMemory(out);
    if (status.ok()) offset_ += static_cast<int64_t>(out.size());
    return status;
  }

 private:
  const ModelInfo& Model() const { return tiers_->info(checkpoint_->model()); }

  absl::Status ReadInMemory(std::span<std::byte> out) {
    const Pin pin(tiers_, checkpoint_);
    Found found = tiers_->Find(*checkpoint_);
    if (found.device == nullptr) on_device_.reset();
    if (on_device_ == nullptr && found.host == nullptr) {
      if (auto status = GoOnWhereItIs(); !status.ok()) return status;
      if (stored_ != nullptr) return stored_->Read(out);
      found = tiers_->Find(*checkpoint_);
    }
    if (on_device_ != nullptr) return Explained(on_device_->Read(out), *tiers_->options_.engine);
    return NewSource(found.host, offset_)->Read(out);
  }

  // It was in host memory, or on the device, and no more.
  absl::Status GoOnWhereItIs() {
    const auto opened = OpenWhereItIs();
    if (!opened.ok()) {
      return absl::UnavailableError(absl::StrCat(
          "the state left memory before it was read to its end: ", opened.status().message()));
    }
    ByteSource* const begun = stored_ != nullptr ? stored_.get() : on_device_.get();
    if (begun == nullptr) return absl::OkStatus();
    std::vector<std::byte> passed(static_cast<size_t>(std::min(offset_, kCopyBytes)));
    for (int64_t left = offset_; left > 0;) {
      const auto next = std::span(passed).first(static_cast<size_t>(std::min(left, kCopyBytes)));
      if (auto status = begun->Read(next); !status.ok()) return status;
      left -= static_cast<int64_t>(next.size());
    }
    return absl::OkStatus();
  }

  // The checkpoint is pinned.
  absl::StatusOr<int64_t> OpenWhereItIs() {
    Found found = tiers_->Find(*checkpoint_);
    if (found.host == nullptr && found.device == nullptr) {
      // A file can be read to its end although another took its place; what others write too
      // cannot.
      if (!tiers_->options_.durable->shared()) {
        auto opened = tiers_->OpenStored(*checkpoint_);
        if (!opened.ok()) return opened.status();
        stored_ = std::move(opened->source);
        return opened->bytes;
      }
      if (auto status = BringHere(); !status.ok()) return status;
      found = tiers_->Find(*checkpoint_);
      if (found.host == nullptr && found.device == nullptr) {
        return tiers_->options_.engine->Health();
      }
    }
    if (found.host != nullptr) return found.host->size();
    head_ = found.head;
    const StateContent content = Content(*found.device, *head_);
    on_device_ = std::make_unique<StateImageSource>(Model(), content);
    return StateImageBytes(Model(), content);
  }

  absl::Status BringHere() {
    int64_t reserved = 0;  // until it lies there, and the pin keeps its place
    const absl::Cleanup give_back = [&] {
      const MutexLock lock(&tiers_->mutex_);
      tiers_->host_reserved_ -= reserved;
      tiers_->host_used_ -= reserved;
    };
    auto here = tiers_->BringToHost(checkpoint_, [&](int64_t bytes) {
      if (reserved > 0) return absl::OkStatus();  // for another copy, which was damaged
      auto status = tiers_->ReserveHost(bytes);
      if (status.ok()) reserved = bytes;
      return status;
    });
    if (!here.ok()) return here.status();
    stays_ = std::make_unique<const Pin>(*std::move(here));
    return absl::OkStatus();
  }

  const std::shared_ptr<Tiers> tiers_;
  const std::shared_ptr<Checkpoint> checkpoint_;
  int64_t offset_ = 0;
  // Where it is read: one of these, or host memory if there is none.
  std::unique_ptr<ByteSource> on_device_;  // refers to the state there, and to `head_`
  std::unique_ptr<ByteSource> stored_;     // whatever becomes of the state
  std::shared_ptr<const CheckpointHead> head_;
  std::unique_ptr<const Pin> stays_;
};

// Copies a checkpoint into the blank state of an admitted request.
class Tiers::Source : public StateSource, public std::enable_shared_from_this<Source> {
 public:
  Source(std::shared_ptr<Tiers> tiers, std::shared_ptr<Checkpoint> checkpoint, int64_t position)
      : tiers_(std::move(tiers)), checkpoint_(std::move(checkpoint)), position_(position) {}

  void Fill(HeldState blank, Done done) override {
    // Shared, because a std::function has to be copyable.
    auto held = std::make_shared<HeldState>(std::move(blank));
    auto pin = std::make_shared<const Pin>(tiers_, checkpoint_);
    auto fill = [self = shared_from_this(), held, pin, done]() mutable {
      const auto status = self->tiers_->Fill(*self->checkpoint_, self->position_, *held);
      auto filled = status.ok() ? absl::StatusOr<HeldState>(std::move(*held)) : status;
      pin.reset();  // nothing is held any more when the request goes on
      self.reset();
      held.reset();
      done(std::move(filled));
    };
    pin.reset();
    // It is pinned: what is in memory stays there.
    const bool stored = tiers_->Where(*checkpoint_) == Tier::kDurable;
    TaskThreads<>& threads = stored ? tiers_->loads_ : tiers_->copies_;
    if (!threads.Schedule(std::move(fill))) {
      done(Refused(Reason::kStopping, "the server is shutting down"));
    }
  }

 private:
  const std::shared_ptr<Tiers> tiers_;
  const std::shared_ptr<Checkpoint> checkpoint_;
  const int64_t position_;
};

StartPoint Tiers::Start(std::shared_ptr<Checkpoint> checkpoint, const CheckpointHead& head) {
  StartPoint start{.position = head.position, .pending = head.pending, .logits = head.logits};
  if (head.position > 0) {
    start.source =
        std::make_shared<Source>(shared_from_this(), std::move(checkpoint), head.position);
  }
  return start;
}

absl::Status Tiers::Fill(Checkpoint& checkpoint, int64_t position, HeldState& blank) {
  const SteadyClock::time_point began = SteadyClock::now();
  const Found found = Find(checkpoint);
  absl::Status status;
  if (found.device != nullptr) return blank.CopyFirst(*found.device->state, position);
  if (found.host != nullptr) {
    const auto source = NewSource(found.host);
    auto image = StateImageReader::Open(source.get(), info(checkpoint.model()));
    status = image.ok() ? image->ReadState(blank.state.get(), position) : image.status();
    status = AsDataLoss(status, "a state in host memory");
  } else {
    status = WithStored(
        checkpoint, [&](const StoredPlace&, const SnapshotHead& head, ByteSource& source) {
          auto image = OpenSnapshotState(head, &source, info(checkpoint.model()));
          return image.ok() ? image->ReadState(blank.state.get(), position) : image.status();
        });
  }
  if (!status.ok()) return status;
  ShareAgain(checkpoint, blank);
  const MutexLock lock(&mutex_);
  ++restores_count_;
  restore_time_.Add(std::chrono::duration<double>(SteadyClock::now() - began).count());
  return status;
}

void Tiers::ShareAgain(Checkpoint& checkpoint, HeldState& filled) {
  filled.Seal(device());
  if (filled.state->sealed_bytes() == 0 || device().shortage()) return;
  const std::shared_ptr<const CheckpointHead> head = Head(checkpoint);
  if (head == nullptr || head->position != filled.state->position()) return;
  auto share = device().TryReserve(filled.OwnBytes());
  if (!share) return;
  auto copy = options_.engine->models()[checkpoint.model()].model->NewState();
  if (!copy.ok() || !(*copy)->CopyFrom(*filled.state).ok()) return;
  auto held = std::make_shared<const HeldState>(*std::move(share), *std::move(copy));
  const MutexLock lock(&mutex_);
  if (checkpoint.device_ != nullptr || checkpoint.head_ == nullptr) return;
  Unindex(checkpoint);
  checkpoint.device_ = std::move(held);
  Index(checkpoint);
}

std::optional<StoredPlace> Tiers::NextStored(const Checkpoint& checkpoint,
                                             const StoredPlace& at) const {
  const MutexLock lock(&mutex_);
  return checkpoint.holders_.NextStored(at);
}

absl::Status Tiers::WithStored(
    const Checkpoint& checkpoint,
    const std::function<absl::Status(const StoredPlace& at, const SnapshotHead& head,
                                     ByteSource& rest)>& read) {
  absl::Status status = absl::DataLossError("a state that no tier has");
  // Where the first copy is damaged, another session's may serve.
  auto at = NextStored(checkpoint, {});
  int missing = 0, damaged = 0;
  for (; at && missing < kMostMissing && damaged < kMostCopies; at = NextStored(checkpoint, *at)) {
    const std::string what = absl::StrCat("session ", at->id, ", stored version ", at->version);
    auto source = options_.durable->Get(at->id, at->version);
    if (absl::IsNotFound(source.status())) {
      // Not corrupt: the session may just have been stored at a later version.
      status = absl::DataLossError(absl::StrCat(what, ": it is not stored any more"));
      ++missing;
      continue;
    }
    status = source.status();
    if (status.ok()) {
      const auto head = ReadSnapshotHead(source->get());
      status = AsDataLoss(head.ok() ? read(*at, *head, **source) : head.status(), what);
    }
    if (status.ok()) return status;
    ++damaged;
    const MutexLock lock(&mutex_);
    if (absl::IsDataLoss(status)) ++corrupt_;
  }
  return status;
}

absl::StatusOr<std::shared_ptr<const Blob>> Tiers::LoadBlob(const Checkpoint& checkpoint,
                                                            const Admit& admit) {
  std::shared_ptr<const Blob> blob;
  // The bytes as they are, but none that are damaged: they may become the only copy there is.
  const auto status =
      WithStored(checkpoint, [&](const StoredPlace&, const SnapshotHead& head, ByteSource& source) {
        if (auto admitted = admit(head.state_bytes); !admitted.ok()) return admitted;
        auto read = ReadBlob(source, head.state_bytes);
        if (!read.ok()) return read.status();
        blob = *std::move(read);
        const auto image = NewSource(blob);
        auto reader = StateImageReader::Open(image.get(), info(checkpoint.model()));
        return reader.ok() ? reader->CheckState() : reader.status();
      });
  if (!status.ok()) return status;
  return blob;
}

absl::Status Tiers::ReserveHost(int64_t bytes) {
  const MutexLock lock(&mutex_);
  int64_t staying = host_reserved_;
  for (const ByUse* const list : {&in_both_, &in_host_}) {
    for (const auto& [use, checkpoint] : *list) {
      if (checkpoint->pins_ > 0) staying += checkpoint->host_->memory_bytes();
    }
  }
  if (staying > 0 && bytes > options_.host_bytes - staying) {
    return absl::ResourceExhaustedError(absl::StrCat("no room in host memory for a state of ",
                                                     bytes, " bytes: ", staying, " of ",
                                                     options_.host_bytes, " bytes are being read"));
  }
  host_reserved_ += bytes;
  host_used_ += bytes;
  WakeHost();  // makes the room
  return absl::OkStatus();
}

absl::StatusOr<Tiers::Pin> Tiers::BringToHost(const std::shared_ptr<Checkpoint>& checkpoint,
                                              const Admit& admit) {
  Pin pin(shared_from_this(), checkpoint);
  const Found found = Find(*checkpoint);
  if (found.device != nullptr || found.host != nullptr) return pin;
  auto blob = LoadBlob(*checkpoint, admit);
  if (!blob.ok()) return blob.status();
  const auto source = NewSource(*blob);
  auto image = StateImageReader::Open(source.get(), info(checkpoint->model()));
  if (!image.ok()) return image.status();
  const bool device_works = options_.engine->Health().ok();
  const MutexLock lock(&mutex_);
  if (checkpoint->host_ != nullptr || (checkpoint->device_ != nullptr && device_works)) return pin;
  Unindex(*checkpoint);
  checkpoint->head_ = std::make_shared<const CheckpointHead>(HeadOf(*image));
  checkpoint->host_ = *std::move(blob);
  Index(*checkpoint);
  WakeHost();
  return pin;
}

absl::StatusOr<Tiers::Image> Tiers::Read(const std::shared_ptr<Checkpoint>& checkpoint) {
  auto pin = std::make_shared<const Pin>(shared_from_this(), checkpoint);
  const Found found = Find(*checkpoint);
  const ModelInfo& model = info(checkpoint->model());
  if (found.host == nullptr && found.device != nullptr) {
    return Image{StateImageBytes(model, Content(*found.device, *found.head)),
                 [pin, found, &model, engine = options_.engine](const ByteSink& sink) {
                   return Explained(
                       WriteStateImage(model, Content(*found.device, *found.head), sink), *engine);
                 }};
  }
  std::shared_ptr<const Blob> blob = found.host;
  if (blob == nullptr) {
    auto loaded = LoadBlob(*checkpoint, [](int64_t) { return absl::OkStatus(); });
    if (!loaded.ok()) return loaded.status();
    blob = *std::move(loaded);
  }
  return Image{blob->size(), [pin, blob](const ByteSink& sink) { return blob->WriteTo(sink); }};
}

absl::StatusOr<Tiers::ImageReader> Tiers::OpenStored(const Checkpoint& checkpoint) {
  ImageReader opened;
  const auto status = WithStored(
      checkpoint, [&](const StoredPlace& at, const SnapshotHead& head, ByteSource& source) {
        // As far as it can be checked without a state: what reads the rest checks that.
        auto checked = StateImageReader::Open(&source, info(checkpoint.model()));
        if (!checked.ok()) return checked.status();
        auto again = options_.durable->Get(at.id, at.version);
        if (!again.ok()) return again.status();
        if (const auto skipped = ReadSnapshotHead(again->get()); !skipped.ok())
          return skipped.status();
        opened = {head.state_bytes, *std::move(again)};
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return opened;
}

absl::StatusOr<Tiers::ImageReader> Tiers::OpenImage(const std::shared_ptr<Checkpoint>& checkpoint) {
  auto source = std::make_unique<SlowSource>(shared_from_this(), checkpoint);
  const auto bytes = source->Open();
  if (!bytes.ok()) return bytes.status();
  return ImageReader{*bytes, std::move(source)};
}

}  // namespace tvq
