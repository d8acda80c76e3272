#include "server/sessions/store/transfers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/state_image.h"
#include "server/sessions/snapshot/transfer.h"
#include "server/sessions/store/call_checks.h"
#include "server/sessions/store/saver.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;
// How long an import waits for room on the device to check the state in.
constexpr std::chrono::milliseconds kPatience{10'000};
constexpr std::chrono::milliseconds kNone{0};
constexpr int kMostWaiting = 4;
constexpr std::chrono::milliseconds kPoll{5};

// `waiting` counts the threads that wait here: few may, so that the others' calls find one.
absl::StatusOr<StateBudget::Share> ReserveOnDevice(StateBudget& budget, int64_t bytes,
                                                   std::atomic<int>& waiting) {
  if (auto share = budget.TryReserve(bytes)) return *std::move(share);
  const absl::Cleanup leave = [&] { --waiting; };
  const auto deadline = SteadyClock::now() + (++waiting <= kMostWaiting ? kPatience : kNone);
  do {
    budget.ReportShortage(bytes);
    if (auto share = budget.TryReserve(bytes)) return *std::move(share);
    if (SteadyClock::now() < deadline) std::this_thread::sleep_for(kPoll);
  } while (SteadyClock::now() < deadline);
  return Refused(Reason::kMemoryFull,
                 absl::StrCat("no room for a state of ", bytes, " bytes: ", budget.used(), " of ",
                              budget.total(), " bytes are in use"));
}

// Fills a request's state from an upload.
class UploadSource : public StateSource, public std::enable_shared_from_this<UploadSource> {
 public:
  UploadSource(std::shared_ptr<Tiers> tiers, std::shared_ptr<const Blob> blob, ModelInfo info)
      : tiers_(std::move(tiers)), blob_(std::move(blob)), info_(std::move(info)) {}

  void Fill(HeldState blank, Done done) override {
    auto held = std::make_shared<HeldState>(std::move(blank));
    auto fill = [self = shared_from_this(), held, done]() mutable {
      const auto status = self->Load(held->state.get());
      self.reset();  // the upload is free when the request goes on
      auto filled = status.ok() ? absl::StatusOr<HeldState>(std::move(*held)) : status;
      held.reset();
      done(std::move(filled));
    };
    if (!tiers_->Schedule(std::move(fill))) {
      done(Refused(Reason::kStopping, "the server is shutting down"));
    }
  }

 private:
  absl::Status Load(State* state) const {
    const auto source = NewSource(blob_);
    const auto head = ReadSnapshotHead(source.get());
    if (!head.ok()) return head.status();
    auto image = OpenSnapshotState(*head, source.get(), info_);
    return image.ok() ? image->ReadState(state) : image.status();
  }

  const std::shared_ptr<Tiers> tiers_;
  const std::shared_ptr<const Blob> blob_;
  const ModelInfo info_;
};

// Whether the model can have the state that the header tells of. If so, the image covers what is
// reserved for it. FAILED_PRECONDITION if it is longer than the model's sessions may be here.
absl::Status CheckState(const StateImageReader& image, const Model& model) {
  const int64_t longest = model.info().config.max_position;
  if (longest > 0 && image.position() > longest) {
    return Refused(Reason::kSnapshotForeign, "snapshot",
                   absl::StrCat("the state is at position ", image.position(),
                                ", the context length of the model here is ", longest));
  }
  return image.ExpectSections(model.StateSections(image.position()));
}

absl::StatusOr<SnapshotHead> ReadHead(const Blob& blob, ByteSource* source) {
  auto head = ReadSnapshotHead(source);
  if (!head.ok()) return head.status();
  const int64_t bytes = head->read_bytes + head->state_bytes;
  if (bytes != blob.size()) {
    return Refused(Reason::kSnapshotInvalid, "snapshot",
                   absl::StrCat("has ", blob.size(), " bytes, its header tells of ", bytes));
  }
  // In the file of a mark the record is of a later version than the state.
  if (head->version != head->record.version) {
    return Refused(Reason::kSnapshotInvalid, "snapshot",
                   absl::StrCat("holds the state of version ", head->version,
                                ", a mark's, beside the record of ", "version ",
                                head->record.version, "; must hold the record's own"));
  }
  return head;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SnapshotStream>> Transfers::Export(const SessionCall& call,
                                                                  const ExportRoom& room) {
  std::unique_ptr<SnapshotStream> stream;
  const auto read = [&](const SessionContent& content, const SessionView& view) {
    auto opened = OpenExport(call, content, view.record, room);
    if (!opened.ok()) return opened.status();
    stream = *std::move(opened);
    return absl::OkStatus();
  };
  if (auto status = reader_.ReadCommitted(call.owner, call.id, read); !status.ok()) return status;
  return stream;
}

absl::StatusOr<std::unique_ptr<SnapshotStream>> Transfers::OpenExport(const SessionCall& call,
                                                                      const SessionContent& content,
                                                                      SessionRecord record,
                                                                      const ExportRoom& room) {
  if (!content.model) return NotServed(record);
  if (auto status = CheckVersion(call, record); !status.ok()) return status;
  record.marks.clear();
  Version version = content.present;
  Replies replies = content.replies;
  const ModelInfo& info = context_.model(*content.model).info();
  const int64_t ids = record.has_transcript ? record.position : 0;
  const int64_t image_bytes =
      version.checkpoint != nullptr ? version.checkpoint->image_bytes() : StateImageBytes(info, {});
  const auto ask = [&room](int64_t kept, int64_t rest) {
    return room ? room(kept, kept + rest) : absl::OkStatus();
  };
  const int64_t known = ids * int64_t{sizeof(int32_t)} + replies.bytes();
  if (auto status = ask(known, image_bytes); !status.ok()) return status;
  if (auto status = loader_.Load(content, record.version, version, &replies); !status.ok()) {
    return status;
  }
  Tiers::ImageReader image{StateImageBytes(info, {}), NewImageSource(info, {})};
  if (version.checkpoint != nullptr) {
    auto opened = tiers_.OpenImage(version.checkpoint);
    if (!opened.ok()) return opened.status();
    image = *std::move(opened);
  }
  const SnapshotHead head = HeadOfSnapshot(record, record.version, version, replies, image.bytes);
  if (auto status = ask(SnapshotHeadBytes(head), image.bytes); !status.ok()) return status;
  return NewSnapshotStream(head, std::move(image.source));
}

int64_t Transfers::max_upload_bytes() const {
  if (context_.options.max_snapshot_bytes > 0) return context_.options.max_snapshot_bytes;
  int64_t largest = 0;
  for (size_t i = 0; i < context_.engine->models().size(); ++i) {
    if (!context_.model(i).info().predicts) continue;  // there are no snapshots of its states
    const int64_t growth = std::min(
        context_.model(i).LargestStateBytes() - context_.model(i).StateBytes(0), kMostUploadGrowth);
    largest = std::max(largest, places_.EmptyBytes(i) + growth);
  }
  return largest + kSnapshotSlack;
}

std::unique_ptr<SnapshotUpload> Transfers::NewUpload() const {
  return std::make_unique<BlobUpload>(max_upload_bytes());
}

absl::StatusOr<Transfers::Uploaded> Transfers::Open(const std::string& model_name, const Blob& blob,
                                                    ByteSource* source) {
  auto head = ReadHead(blob, source);
  if (!head.ok()) return head.status();
  // Without a name: the model that the snapshot names, or else any that it fits.
  std::vector<size_t> models;
  if (const auto index = context_.ModelIndex(model_name); index.ok()) {
    models = {*index};
  } else if (!model_name.empty()) {
    return index.status();
  } else {
    models.resize(context_.engine->models().size());
    std::iota(models.begin(), models.end(), size_t{0});
    if (const auto named = context_.ModelIndex(head->record.model); named.ok()) {
      std::swap(models.front(), models[*named]);
    }
  }
  return Uploaded{*std::move(head), std::move(models)};
}

absl::StatusOr<Transfers::Checked> Transfers::Check(const std::string& model_name,
                                                    std::unique_ptr<SnapshotUpload> upload) {
  const auto blob = static_cast<BlobUpload*>(upload.get())->Finish();
  const auto first = NewSource(blob);
  auto opened = Open(model_name, *blob, first.get());
  if (!opened.ok()) return opened.status();
  SnapshotHead& head = opened->head;
  absl::Status status;
  for (const size_t index : opened->models) {
    const ServedModel& served = context_.engine->models()[index];
    const auto source = NewSource(blob, head.read_bytes);
    auto image = OpenSnapshotState(head, source.get(), served.model->info());
    status = image.ok() ? CheckState(*image, *served.model) : image.status();
    if (absl::IsFailedPrecondition(status)) continue;  // it may fit another
    if (!status.ok()) return status;
    Checked checked{.head = std::move(head), .model = index};
    if (image->position() == 0 && image->pending().empty()) {
      return checked;
    }
    auto share = ReserveOnDevice(context_.engine->budget(),
                                 served.model->StateBytes(image->position()), imports_waiting_);
    if (!share.ok()) return share.status();
    auto state = served.model->NewState();
    if (!state.ok()) return state.status();
    if (auto read = image->ReadState(state->get()); !read.ok()) return read;
    checked.state = Continuation{.held = {*std::move(share), *std::move(state)},
                                 .pending = std::move(image->pending()),
                                 .logits = std::move(image->logits())};
    return checked;
  }
  // Of what it was tried with, the last.
  const ServedModel& tried = context_.engine->models()[opened->models.back()];
  return Refused(
      Reason::kSnapshotForeign,
      absl::StrCat(status.message(), "; it was tried with the model ", Quoted(tried.name),
                   ", and the snapshot says that it is of ", Quoted(head.record.model)));
}

absl::StatusOr<SessionContent> Transfers::ContentOf(Checked checked) {
  SessionContent content;
  content.model = checked.model;
  content.record = checked.head.record;
  content.record.model = context_.engine->models()[checked.model].name;
  content.record.marks.clear();
  Version version;
  if (checked.state) version.checkpoint = tiers_.Add(checked.model, *std::move(checked.state));
  if (content.record.has_transcript) version.tokens.Append(checked.head.transcript);
  auto present = maker_.NewVersion(content, version, content.record.position);
  if (!present.ok()) return present.status();
  content.present = *std::move(present);
  return content;
}

absl::StatusOr<SessionView> Transfers::Import(const std::string& owner,
                                              const CreateOptions& options,
                                              std::unique_ptr<SnapshotUpload> upload) {
  if (auto status = CheckNaming(options.label, options.ttl, options.idempotency_key);
      !status.ok()) {
    return status;
  }
  if (auto status = context_.CheckDurability(options.durability); !status.ok()) return status;
  const std::string asked = AskedBy(CallKind::kImport, options.request_hash);
  const auto made = maker_.Made(
      {.owner = owner, .creation_key = options.idempotency_key, .creation_asked = asked},
      options.durability);
  if (!made.ok()) return made.status();
  if (!made->empty()) return made->front();
  auto checked = Check(options.model, std::move(upload));
  if (!checked.ok()) return checked.status();
  if (!options.keep_transcript.value_or(context_.options.keep_transcript)) {
    checked->head.record.has_transcript = false;
  } else if (options.keep_transcript.has_value() && !checked->head.record.has_transcript) {
    return Refused(Reason::kValuesConflict, "keep_transcript", "the snapshot has no transcript");
  }
  checked->head.record.owner = owner;
  auto content = ContentOf(*std::move(checked));
  if (!content.ok()) return content.status();
  const SessionRecord& from = content->record;
  const bool add_special_tokens = options.add_special_tokens.value_or(from.add_special_tokens);
  content->record = {.id = NewSessionId(),
                     .owner = owner,
                     .model = from.model,
                     .label = options.label,
                     .position = from.position,
                     .created = context_.clock(),
                     .ttl = options.ttl.value_or(context_.options.default_ttl),
                     .has_transcript = from.has_transcript,
                     .add_special_tokens = add_special_tokens,
                     .answer_end = from.answer_end,
                     .creation_key = options.idempotency_key,
                     .creation_asked = asked};
  return maker_.Make(*std::move(content), options.durability);
}

absl::StatusOr<std::optional<StartPoint>> Transfers::StartFrom(
    const std::string& model_name, std::unique_ptr<SnapshotUpload> upload) {
  const auto index = context_.ModelIndex(model_name);
  if (!index.ok()) return index.status();
  const auto blob = static_cast<BlobUpload*>(upload.get())->Finish();
  const auto bytes = NewSource(blob);
  const auto head = ReadHead(*blob, bytes.get());
  if (!head.ok()) return head.status();
  const ModelInfo& info = context_.model(*index).info();
  auto image = OpenSnapshotState(*head, bytes.get(), info);
  if (!image.ok()) return image.status();
  if (auto fits = CheckState(*image, context_.model(*index)); !fits.ok()) return fits;
  CheckpointHead found = HeadOf(*image);
  if (found.position == 0 && found.pending.empty()) return std::nullopt;
  // The state itself is checked while the request's is filled.
  std::shared_ptr<StateSource> source;
  if (found.position > 0)
    source = std::make_shared<UploadSource>(tiers_.shared_from_this(), blob, info);
  return StartPoint{.source = std::move(source),
                    .position = found.position,
                    .pending = std::move(found.pending),
                    .logits = std::move(found.logits),
                    .answer_end = head->record.answer_end};
}

absl::StatusOr<std::unique_ptr<SnapshotStream>> Transfers::ToSnapshot(const std::string& model_name,
                                                                      Continuation end) {
  const auto index = context_.ModelIndex(model_name);
  if (!index.ok()) return index.status();
  const absl::Time now = context_.clock();
  SessionRecord record{
      .id = NewSessionId(),
      .model = context_.engine->models()[*index].name,
      .position = end.held.state->position() + static_cast<int64_t>(end.pending.size()),
      .created = now,
      .last_used = now,
      .answer_end = end.answer_end};
  const ModelInfo& info = context_.model(*index).info();
  const int64_t bytes = StateImageBytes(info, StateContentOf(end));
  return NewSnapshotStream(HeadOfSnapshot(record, record.version, {}, {}, bytes),
                           NewImageSource(info, std::move(end)));
}

}  // namespace tvq
