#include "server/sessions/snapshot/snapshot.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/json_fields.h"
#include "server/sessions/record/record_json.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_limits.h"
#include "server/sessions/snapshot/frame.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr FrameFormat kSnapshotFormat = {.name = "snapshot", .magic = "TVQSNAPS", .version = 1};
constexpr char kTranscript[] = "transcript";
constexpr char kOutcomes[] = "outcomes";
// So that sums of the parts stay within 64 bits.
constexpr int64_t kMostSnapshotBytes = std::numeric_limits<int64_t>::max() / 8;
// Beside key and reply: their lengths, what was asked, a space.
constexpr size_t kOutcomeFraming = 2 * sizeof(uint32_t) + 32;
constexpr int64_t kMostOutcomesBytes =
    Replies::kKept * (kMaxKeyBytes + kMaxReplyBytes + kOutcomeFraming);

int64_t TranscriptBytes(const SnapshotHead& head) {
  return static_cast<int64_t>(head.transcript.size() * sizeof(int32_t));
}

// Each text as its length, u32, and its bytes.
std::string OutcomesText(const SnapshotHead& head) {
  std::string text;
  const auto add = [&](const std::string& field) {
    const auto length = static_cast<uint32_t>(field.size());
    text.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(field);
  };
  for (const Outcome& outcome : head.outcomes) {
    add(outcome.idempotency_key);
    add(outcome.reply);
  }
  return text;
}

std::string HeaderText(const SnapshotHead& head, int64_t outcomes_bytes) {
  const json header = {{"record", ToJson(head.record)},
                       {"version", head.version},
                       {"transcript_bytes", TranscriptBytes(head)},
                       {"outcomes_bytes", outcomes_bytes},
                       {"state_bytes", head.state_bytes}};
  // Text from outside is UTF-8 by the time it gets here; what is not must not throw.
  return header.dump(-1, ' ', false, json::error_handler_t::replace);
}

int64_t HeadBytes(int64_t header_bytes, int64_t transcript_bytes, int64_t outcomes_bytes) {
  return header_bytes + transcript_bytes + kChecksumBytes + outcomes_bytes + kChecksumBytes;
}

// The position of the version whose state is stored; nothing if the record does not name it.
std::optional<int64_t> PositionOf(const SessionRecord& record, int64_t version) {
  if (version == record.version) return record.position;
  for (const MarkRecord& mark : record.marks) {
    if (mark.version == version) return mark.position;
  }
  return std::nullopt;
}

// What the header says.
struct Header {
  SnapshotInfo info;
  int64_t transcript_bytes = 0;
  int64_t outcomes_bytes = 0;
  int64_t state_bytes = 0;
};

absl::StatusOr<Header> ReadHeader(FrameReader& frame) {
  absl::StatusOr<json> object = frame.Header();
  if (!object.ok()) return object.status();
  const std::string where = absl::StrCat(std::string(kSnapshotFormat.name), ": the header");
  JsonFields fields(*object, where);
  Header header;
  auto record = RecordFromJson(fields.Object("record"), absl::StrCat(where, ": record"));
  fields.Update(record.status());
  header.info.version = fields.Int("version", 1, kMostSnapshotBytes);
  header.transcript_bytes = fields.Int("transcript_bytes", 0, kMostSnapshotBytes);
  header.outcomes_bytes = fields.Int("outcomes_bytes", 0, kMostOutcomesBytes);
  header.state_bytes = fields.Int("state_bytes", 1, kMostSnapshotBytes);
  if (!fields.status().ok()) return fields.status();

  header.info.record = *std::move(record);
  const std::optional<int64_t> position = PositionOf(header.info.record, header.info.version);
  if (!position) fields.Fail("version", "must be the record's own or that of one of its marks");
  const int64_t ids = header.info.record.has_transcript ? position.value_or(0) : 0;
  if (header.transcript_bytes % 4 != 0 || header.transcript_bytes / 4 != ids) {
    fields.Fail("transcript_bytes", absl::StrCat("must be those of ", ids, " ids"));
  }
  if (!fields.status().ok()) return fields.status();
  header.info.total_bytes =
      HeadBytes(frame.header_bytes(), header.transcript_bytes, header.outcomes_bytes) +
      header.state_bytes;
  return header;
}

// Reads a section of `bytes` into `out`, whose memory grows with what comes.
template <typename Container>
absl::Status ReadSection(FrameReader& frame, const char* section, int64_t bytes, Container* out) {
  constexpr size_t kSize = sizeof(typename Container::value_type);
  constexpr size_t kRun = (64 << 10) / kSize;
  for (size_t left = static_cast<size_t>(bytes) / kSize; left > 0;) {
    const size_t n = std::min(left, kRun);
    out->resize(out->size() + n);
    const auto run = std::span(out->data() + out->size() - n, n);
    if (absl::Status s = frame.Read(section, std::as_writable_bytes(run)); !s.ok()) return s;
    left -= n;
  }
  return frame.End(section);
}

absl::Status ParseOutcomes(const FrameReader& frame, std::string_view text,
                           std::vector<Outcome>* outcomes) {
  const auto take = [&](std::string* field) {
    uint32_t length;
    if (text.size() < sizeof(length)) return false;
    std::memcpy(&length, text.data(), sizeof(length));
    text.remove_prefix(sizeof(length));
    if (text.size() < length) return false;
    field->assign(text.substr(0, length));
    text.remove_prefix(length);
    return true;
  };
  while (!text.empty()) {
    // Each takes more memory than it may have bytes.
    if (outcomes->size() == Replies::kKept) {
      return frame.Invalid(absl::StrCat("has more than ", Replies::kKept, " outcomes"));
    }
    Outcome& outcome = outcomes->emplace_back();
    if (take(&outcome.idempotency_key) && take(&outcome.reply)) continue;
    return frame.Invalid(
        absl::StrCat("outcome ", outcomes->size() - 1, " goes beyond its section"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SnapshotHeadBytes(const SnapshotHead& head) {
  const auto outcomes = static_cast<int64_t>(OutcomesText(head).size());
  const auto header = static_cast<int64_t>(HeaderText(head, outcomes).size());
  return HeadBytes(FrameHeaderBytes(header), TranscriptBytes(head), outcomes);
}

absl::Status WriteSnapshotHead(const SnapshotHead& head, const ByteSink& sink) {
  const std::string outcomes = OutcomesText(head);
  FrameWriter frame(sink);
  absl::Status s =
      frame.Header(kSnapshotFormat, HeaderText(head, static_cast<int64_t>(outcomes.size())));
  if (s.ok()) s = frame.Add(std::as_bytes(std::span(head.transcript)));
  if (s.ok()) s = frame.End();
  if (s.ok()) s = frame.Add(std::as_bytes(std::span(outcomes)));
  return s.ok() ? frame.End() : s;
}

absl::StatusOr<SnapshotInfo> ReadSnapshotInfo(ByteSource* source) {
  FrameReader frame(source, kSnapshotFormat);
  absl::StatusOr<Header> header = ReadHeader(frame);
  if (!header.ok()) return header.status();
  return std::move(header->info);
}

absl::StatusOr<SnapshotHead> ReadSnapshotHead(ByteSource* source) {
  FrameReader frame(source, kSnapshotFormat);
  absl::StatusOr<Header> header = ReadHeader(frame);
  if (!header.ok()) return header.status();
  SnapshotHead head;
  head.record = std::move(header->info.record);
  head.version = header->info.version;
  head.state_bytes = header->state_bytes;
  head.read_bytes = header->info.total_bytes - header->state_bytes;
  absl::Status s = ReadSection(frame, kTranscript, header->transcript_bytes, &head.transcript);
  std::string outcomes;
  if (s.ok()) s = ReadSection(frame, kOutcomes, header->outcomes_bytes, &outcomes);
  if (s.ok()) s = ParseOutcomes(frame, outcomes, &head.outcomes);
  if (!s.ok()) return s;
  return head;
}

absl::StatusOr<StateImageReader> OpenSnapshotState(const SnapshotHead& head, ByteSource* source,
                                                   const ModelInfo& model) {
  const FrameReader frame(source, kSnapshotFormat);  // for its messages
  absl::StatusOr<StateImageReader> image = StateImageReader::Open(source, model);
  if (!image.ok()) return image.status();
  if (image->image_bytes() != head.state_bytes) {
    return frame.Invalid(absl::StrCat("the state image has ", image->image_bytes(),
                                      " bytes, must have ", head.state_bytes));
  }
  const int64_t pending = static_cast<int64_t>(image->pending().size());
  const std::optional<int64_t> position = PositionOf(head.record, head.version);
  if (position != image->position() + pending) {
    return frame.Invalid(absl::StrCat("the state has ", image->position(), " tokens and ", pending,
                                      " pending, must have ", position.value_or(0), " in all"));
  }
  const int64_t vocab = model.config.vocab_size;
  for (size_t i = 0; i < head.transcript.size(); ++i) {
    if (head.transcript[i] >= 0 && head.transcript[i] < vocab) continue;
    return frame.Invalid(
        absl::StrCat("transcript[", i, "] is ", head.transcript[i], ", must be 0 to ", vocab - 1));
  }
  return image;
}

}  // namespace tvq
