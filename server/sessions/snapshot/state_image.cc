#include "server/sessions/snapshot/state_image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_fields.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr FrameFormat kImageFormat = {.name = "state image", .magic = "TVQSTATE", .version = 2};
// Before it, sections had no shape.
constexpr uint32_t kFirstWithShapes = 2;
constexpr std::string_view kEndMark = "TVQ.END\n";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
// Far above any session, and far enough from the largest integer for sums of positions.
constexpr int64_t kMostTokens = int64_t{1} << 60;
constexpr int64_t kMostImageBytes = int64_t{1} << 60;

// The image's own sections, before the state's.
constexpr size_t kOwnSections = 2;
SectionInfo PendingSection(size_t count) {
  return MakeSection("pending", sizeof(int32_t), {static_cast<int64_t>(count)});
}
SectionInfo LogitsSection(size_t count) {
  return MakeSection("logits", sizeof(float), {static_cast<int64_t>(count)});
}

std::vector<SectionInfo> SectionsOf(const StateContent& content) {
  std::vector<SectionInfo> all{PendingSection(content.pending.size()),
                               LogitsSection(content.logits.size())};
  // A state at position 0 is blank: nothing to keep.
  if (content.state == nullptr || content.state->position() == 0) return all;
  for (SectionInfo& section : content.state->Sections()) all.push_back(std::move(section));
  return all;
}

std::string HeaderText(const ModelInfo& model, const StateContent& content,
                       const std::vector<SectionInfo>& sections) {
  json header = {{"fingerprint", model.fingerprint},
                 {"family", model.family},
                 {"dtype", Name(model.dtype)},
                 {"state_dtype", Name(model.state_dtype)},
                 {"vocab_size", model.config.vocab_size},
                 {"prefill_chunk", model.config.prefill_chunk},
                 {"position", content.state == nullptr ? 0 : content.state->position()},
                 {"sections", json::array()}};
  for (const SectionInfo& section : sections) {
    header["sections"].push_back({{"name", section.name},
                                  {"element_bytes", section.element_bytes},
                                  {"shape", section.shape},
                                  {"bytes", section.bytes}});
  }
  return header.dump();
}

int64_t ImageBytes(int64_t header_bytes, const std::vector<SectionInfo>& sections) {
  int64_t bytes = header_bytes + static_cast<int64_t>(kEndMark.size());
  for (const SectionInfo& section : sections) bytes += section.bytes + kChecksumBytes;
  return bytes;
}

// Header and the image's own sections.
absl::Status WriteOwn(FrameWriter& frame, const ModelInfo& model, const StateContent& content,
                      const std::vector<SectionInfo>& sections) {
  absl::Status s = frame.Header(kImageFormat, HeaderText(model, content, sections));
  if (s.ok()) s = frame.Add(std::as_bytes(content.pending));
  if (s.ok()) s = frame.End();
  if (s.ok()) s = frame.Add(std::as_bytes(content.logits));
  return s.ok() ? frame.End() : s;
}

// The state's sections from the image's `*next` on, until `full` says so behind one of them.
absl::Status WriteSections(FrameWriter& frame, const State& state, size_t* next,
                           const std::function<bool()>& full) {
  int64_t seen = 0;  // of a section, whose pieces follow one another
  bool stopped = false;
  const absl::Status visited = state.VisitSectionsFrom(
      *next - kOwnSections, [&](const SectionInfo& section, std::span<const std::byte> bytes) {
        seen += static_cast<int64_t>(bytes.size());
        absl::Status s = frame.Add(bytes);
        if (!s.ok() || seen < section.bytes) return s;
        seen = 0;
        ++*next;
        s = frame.End();
        stopped = s.ok() && full();
        return stopped ? absl::CancelledError() : s;
      });
  return stopped ? absl::OkStatus() : visited;
}

std::string Describe(const SectionInfo& section) {
  const std::string shape = section.shape.empty()
                                ? ""
                                : absl::StrCat(", shape [", absl::StrJoin(section.shape, ","), "]");
  return absl::StrCat(Quoted(section.name), " of ", section.bytes, " bytes, ",
                      section.element_bytes, " an element", shape);
}

// What of an image must be as the model has it.
absl::Status CheckModel(JsonFields& fields, const ModelInfo& model) {
  const std::pair<const char*, std::string> texts[] = {{"fingerprint", model.fingerprint},
                                                       {"dtype", Name(model.dtype)},
                                                       {"state_dtype", Name(model.state_dtype)}};
  std::string other;
  const auto note = [&](const char* field, const std::string& found, const std::string& wanted) {
    if (found != wanted && other.empty()) {
      other = absl::StrCat(field, " is ", found, ", the model's is ", wanted);
    }
  };
  for (const auto& [field, wanted] : texts)
    note(field, Quoted(fields.String(field)), Quoted(wanted));
  const int64_t chunk = fields.Int("prefill_chunk", 1, kMost);
  note("prefill_chunk", absl::StrCat(chunk), absl::StrCat(model.config.prefill_chunk));
  const std::string family = fields.String("family");
  if (!fields.status().ok() || other.empty()) return fields.status();
  return Refused(Reason::kSnapshotForeign,
                 absl::StrCat(std::string(kImageFormat.name), " of another model (family ",
                              Quoted(family), "): ", other));
}

}  // namespace

int64_t StateImageBytes(const ModelInfo& model, const StateContent& content) {
  const std::vector<SectionInfo> sections = SectionsOf(content);
  const std::string header = HeaderText(model, content, sections);
  return ImageBytes(FrameHeaderBytes(static_cast<int64_t>(header.size())), sections);
}

absl::StatusOr<int64_t> LargestStateImage(Model& model) {
  constexpr int64_t kHeaderBytes = 1024;  // beside the lines of the sections
  constexpr int64_t kLineBytes = 128;     // of a section, beside its name; with its checksum
  const auto state = model.NewState();
  if (!state.ok()) return state.status();
  // Sections may grow until the window is full, up to what the state takes on the device.
  int64_t bytes =
      kHeaderBytes + model.StateBytes(0) + model.info().config.vocab_size * int64_t{sizeof(float)};
  for (const SectionInfo& section : (*state)->Sections()) {
    bytes += static_cast<int64_t>(section.name.size()) + kLineBytes;
  }
  return bytes;
}

absl::Status WriteStateImage(const ModelInfo& model, const StateContent& content,
                             const ByteSink& sink) {
  const std::vector<SectionInfo> sections = SectionsOf(content);
  FrameWriter frame(sink);
  absl::Status s = WriteOwn(frame, model, content, sections);
  for (size_t next = kOwnSections; s.ok() && next < sections.size();) {
    s = WriteSections(frame, *content.state, &next, [] { return false; });
  }
  return s.ok() ? sink(std::as_bytes(std::span(kEndMark))) : s;
}

StateImageSource::StateImageSource(const ModelInfo& model, const StateContent& content)
    : model_(model),
      content_(content),
      sections_(SectionsOf(content)),
      sink_([this](std::span<const std::byte> bytes) {
        made_.insert(made_.end(), bytes.begin(), bytes.end());
        return absl::OkStatus();
      }),
      frame_(sink_) {}

absl::Status StateImageSource::Refill() {
  made_.clear();
  read_ = 0;
  if (next_ == 0) {
    next_ = kOwnSections;
    return WriteOwn(frame_, model_, content_, sections_);
  }
  if (next_ < sections_.size()) {
    return WriteSections(frame_, *content_.state, &next_,
                         [this] { return made_.size() >= kPieceBytes; });
  }
  if (ended_) return absl::OutOfRangeError("the state image has ended");
  ended_ = true;
  return sink_(std::as_bytes(std::span(kEndMark)));
}

absl::Status StateImageSource::Read(std::span<std::byte> out) {
  while (!out.empty()) {
    if (read_ == made_.size()) {
      if (absl::Status s = Refill(); !s.ok()) return s;
    }
    const size_t n = std::min(out.size(), made_.size() - read_);
    std::memcpy(out.data(), made_.data() + read_, n);
    read_ += n;
    out = out.subspan(n);
  }
  return absl::OkStatus();
}

StateImageReader::StateImageReader(ByteSource* source, const ModelInfo& model)
    : frame_(source, kImageFormat), model_(&model) {}

absl::StatusOr<StateImageReader> StateImageReader::Open(ByteSource* source,
                                                        const ModelInfo& model) {
  StateImageReader reader(source, model);
  absl::Status s = reader.ReadHeader();
  if (s.ok()) s = reader.ReadPending();
  if (s.ok()) s = reader.ReadLogits();
  if (!s.ok()) return s;
  return reader;
}

absl::Status StateImageReader::ReadHeader() {
  absl::StatusOr<json> header = frame_.Header();
  if (!header.ok()) return header.status();
  const std::string where = absl::StrCat(std::string(kImageFormat.name), ": the header");
  JsonFields fields(*header, where);
  if (absl::Status s = CheckModel(fields, *model_); !s.ok()) return s;
  const int64_t vocab = model_->config.vocab_size;
  fields.Int("vocab_size", vocab, vocab);
  position_ = fields.Int("position", 0, kMostTokens);
  int64_t sum = 0;
  for (const json& entry : fields.Array("sections")) {
    JsonFields section(entry, absl::StrCat(where, ": section ", sections_.size()));
    SectionInfo info{.name = section.String("name"),
                     .element_bytes = section.Int("element_bytes", 1, 64)};
    if (frame_.version() >= kFirstWithShapes)
      info.shape = section.Ints("shape", 0, kMostImageBytes);
    info.bytes = section.Int("bytes", 0, kMostImageBytes);
    if (section.status().ok() && info.bytes % info.element_bytes != 0) {
      section.Fail("bytes", "must be whole elements");
    }
    sum += info.bytes + kChecksumBytes;
    if (sum > kMostImageBytes)
      section.Fail("bytes", absl::StrCat("adds up to more than ", kMostImageBytes));
    fields.Update(section.status());
    if (!fields.status().ok()) return fields.status();
    sections_.push_back(std::move(info));
  }
  if (sections_.size() < 2)
    fields.Fail("sections", "must have at least \"pending\" and \"logits\"");
  if (position_ == 0 && sections_.size() > 2) {
    fields.Fail("sections", "must have no others than \"pending\" and \"logits\" at position 0");
  }
  if (!fields.status().ok()) return fields.status();
  image_bytes_ = ImageBytes(frame_.header_bytes(), sections_);
  return absl::OkStatus();
}

absl::Status StateImageReader::CheckSection(size_t index, const SectionInfo& expected) const {
  if (index >= sections_.size()) {
    return frame_.Invalid(
        absl::StrCat("ends after ", index, " sections, the next must be ", Describe(expected)));
  }
  SectionInfo wanted = expected;
  if (frame_.version() < kFirstWithShapes) wanted.shape.clear();
  if (sections_[index] == wanted) return absl::OkStatus();
  return frame_.Invalid(absl::StrCat("section ", index, " is ", Describe(sections_[index]),
                                     ", must be ", Describe(wanted)));
}

absl::Status StateImageReader::NextSection(const SectionInfo& expected) {
  return CheckSection(next_++, expected);
}

absl::Status StateImageReader::ExpectSections(std::span<const SectionInfo> state) const {
  if (position_ == 0) return absl::OkStatus();
  size_t index = kOwnSections;
  for (const SectionInfo& expected : state) {
    if (absl::Status s = CheckSection(index++, expected); !s.ok()) return s;
  }
  return CheckCount(index);
}

absl::Status StateImageReader::ReadPending() {
  // A call leaves what it sampled last, and nothing else, to be fed by the next one.
  const bool any = sections_[0].bytes != 0;
  if (absl::Status s = NextSection(PendingSection(any ? 1 : 0)); !s.ok()) return s;
  pending_.resize(any ? 1 : 0);
  absl::Status s = frame_.Read("pending", std::as_writable_bytes(std::span(pending_)));
  if (s.ok()) s = frame_.End("pending");
  const int64_t vocab = model_->config.vocab_size;
  if (!s.ok() || !any || (pending_[0] >= 0 && pending_[0] < vocab)) return s;
  return frame_.Invalid(absl::StrCat("pending[0] is ", pending_[0], ", must be 0 to ", vocab - 1));
}

absl::Status StateImageReader::ReadLogits() {
  const bool wanted = position_ > 0 && pending_.empty();
  const auto count = static_cast<size_t>(wanted ? model_->config.vocab_size : 0);
  const SectionInfo expected = LogitsSection(count);
  if (absl::Status s = NextSection(expected); !s.ok()) return s;
  logits_.resize(count);
  absl::Status s = frame_.Read("logits", std::as_writable_bytes(std::span(logits_)));
  if (s.ok()) s = frame_.End("logits");
  if (!s.ok()) return s;
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(logits_[i])) continue;
    return frame_.Invalid(absl::StrCat("logits[", i, "] is ", logits_[i], ", must be finite"));
  }
  return absl::OkStatus();
}

absl::Status StateImageReader::Skip(const std::string& section, int64_t bytes) {
  constexpr int64_t kPieceBytes = int64_t{64} << 10;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(bytes, kPieceBytes)));
  for (int64_t left = bytes; left > 0;) {
    const int64_t n = std::min(left, kPieceBytes);
    absl::Status s = frame_.Read(section, std::span(piece).first(static_cast<size_t>(n)));
    if (!s.ok()) return s;
    left -= n;
  }
  return absl::OkStatus();
}

absl::Status StateImageReader::ReadSection(const SectionInfo& section, int64_t tokens,
                                           std::span<std::byte> out) {
  SectionInfo whole = section;
  if (tokens < position_) {
    whole.shape[1] = position_;
    whole.bytes = section.bytes / tokens * position_;
  }
  absl::Status s = NextSection(whole);
  const int64_t groups = tokens < position_ ? whole.shape[0] : 1;
  const int64_t kept = section.bytes / groups, left_out = whole.bytes / groups - kept;
  for (int64_t g = 0; s.ok() && g < groups; ++g) {
    s = frame_.Read(section.name,
                    out.subspan(static_cast<size_t>(g * kept), static_cast<size_t>(kept)));
    if (s.ok()) s = Skip(section.name, left_out);
  }
  return s.ok() ? frame_.End(section.name) : s;
}

absl::Status StateImageReader::ReadState(State* state, int64_t tokens) {
  absl::Status s;
  if (position_ == 0) {
    s = state->Reset();
  } else {
    absl::Status read;
    s = state->Load(tokens, [&](const SectionInfo& section, std::span<std::byte> out) {
      read = ReadSection(section, tokens, out);
      return read;
    });
    // The model's own findings do not say yet what they are about.
    if (read.ok() && absl::IsInvalidArgument(s)) s = frame_.Invalid(std::string(s.message()));
  }
  if (s.ok()) s = ReadEnd();
  if (s.ok()) return s;
  if (absl::Status reset = state->Reset(); !reset.ok()) return reset;
  return s;
}

absl::Status StateImageReader::CheckState() {
  for (; next_ < sections_.size(); ++next_) {
    const SectionInfo& section = sections_[next_];
    absl::Status s = Skip(section.name, section.bytes);
    if (s.ok()) s = frame_.End(section.name);
    if (!s.ok()) return s;
  }
  return ReadEnd();
}

absl::Status StateImageReader::CheckCount(size_t wanted) const {
  if (sections_.size() == wanted) return absl::OkStatus();
  return frame_.Invalid(absl::StrCat("has ", sections_.size(), " sections, must have ", wanted));
}

absl::Status StateImageReader::ReadEnd() {
  if (absl::Status s = CheckCount(next_); !s.ok()) return s;
  std::array<char, kEndMark.size()> end;
  absl::Status s = frame_.ReadPlain("end mark", std::as_writable_bytes(std::span(end)));
  if (!s.ok()) return s;
  if (std::string_view(end.data(), end.size()) == kEndMark) return absl::OkStatus();
  return frame_.Invalid("does not end with its end mark");
}

}  // namespace tvq
