#include "server/sessions/snapshot/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/sessions/record/record_json.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_limits.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/blob.h"
#include "tests/server/sessions/byte_vector.h"
#include "tests/server/sessions/tiny_model.h"

namespace tvq {
namespace {

using fixtures::AppendTo;
using fixtures::Bytes;
using fixtures::BytesSource;
using fixtures::Fed;
using fixtures::FeedTokens;
using fixtures::TinyModel;
using ::testing::HasSubstr;

SnapshotHead Head(int64_t position) {
  SnapshotHead head;
  SessionRecord& record = head.record;
  record.id = "0123456789abcdef0123456789abcdef";
  record.owner = "key \"one\"";
  record.model = "tiny";
  record.label = "Käse\n";
  record.parent_id = "ffffffffffffffffffffffffffffffff";
  record.parent_version = 3;
  record.version = 8;
  record.persisted_version = 7;
  record.position = position;
  record.created = absl::FromUnixNanos(1'700'000'000'123'456'789);
  record.last_used = absl::FromUnixNanos(1'800'000'000'000'000'001);
  record.ttl = absl::Hours(36);
  record.has_transcript = true;
  record.marks = {{"start", 2, 4}, {"later", 5, 6, AnswerEnd{"", 0}}};
  record.answer_end = AnswerEnd{std::string("a\0\xff\n", 4), 2, true};
  record.creation_key = "k-1";
  head.version = 8;
  for (int64_t i = 0; i < position; ++i) head.transcript.push_back(static_cast<int32_t>(i % 11));
  head.outcomes = {{"a", std::string("\0\xff reply", 8)}, {"b", ""}};
  return head;
}

void ExpectSame(const SessionRecord& a, const SessionRecord& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.owner, b.owner);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.parent_id, b.parent_id);
  EXPECT_EQ(a.parent_version, b.parent_version);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.persisted_version, b.persisted_version);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.created, b.created);
  EXPECT_EQ(a.last_used, b.last_used);
  EXPECT_EQ(a.ttl, b.ttl);
  EXPECT_EQ(a.has_transcript, b.has_transcript);
  EXPECT_EQ(a.creation_key, b.creation_key);
  EXPECT_EQ(a.answer_end, b.answer_end);
  ASSERT_EQ(a.marks.size(), b.marks.size());
  for (size_t i = 0; i < a.marks.size(); ++i) {
    EXPECT_EQ(a.marks[i].name, b.marks[i].name);
    EXPECT_EQ(a.marks[i].version, b.marks[i].version);
    EXPECT_EQ(a.marks[i].position, b.marks[i].position);
    EXPECT_EQ(a.marks[i].answer_end, b.marks[i].answer_end);
  }
}

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() : model_(TinyModel()), fed_(FeedTokens(*model_, 9)) {}

  StateContent Content() const { return {fed_.state.get(), {}, fed_.logits}; }

  Bytes Written(SnapshotHead head) const {
    head.state_bytes = StateImageBytes(model_->info(), Content());
    Bytes bytes;
    EXPECT_TRUE(WriteSnapshotHead(head, AppendTo(&bytes)).ok());
    EXPECT_EQ(SnapshotHeadBytes(head), std::ssize(bytes));
    EXPECT_TRUE(WriteStateImage(model_->info(), Content(), AppendTo(&bytes)).ok());
    EXPECT_EQ(SnapshotHeadBytes(head) + head.state_bytes, std::ssize(bytes));
    return bytes;
  }

  // Through head and state; the first error.
  absl::Status Read(const Bytes& bytes) const {
    BytesSource source(bytes);
    absl::StatusOr<SnapshotHead> head = ReadSnapshotHead(&source);
    if (!head.ok()) return head.status();
    auto image = OpenSnapshotState(*head, &source, model_->info());
    if (!image.ok()) return image.status();
    return image->ReadState(model_->NewState().value().get());
  }

  std::string Problem(const SnapshotHead& head) const {
    const absl::Status status = Read(Written(head));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::unique_ptr<Model> model_;
  Fed fed_;
};

TEST_F(SnapshotTest, GivesBackWhatWasWritten) {
  const SnapshotHead written = Head(9);
  const Bytes bytes = Written(written);
  BytesSource source(bytes);
  absl::StatusOr<SnapshotHead> read = ReadSnapshotHead(&source);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(read->record, written.record);
  EXPECT_EQ(read->version, 8);
  EXPECT_EQ(read->transcript, written.transcript);
  ASSERT_EQ(read->outcomes.size(), 2U);
  EXPECT_EQ(read->outcomes[0].idempotency_key, "a");
  EXPECT_EQ(read->outcomes[0].reply, written.outcomes[0].reply);
  EXPECT_EQ(read->outcomes[1].reply, "");
  auto image = OpenSnapshotState(*read, &source, model_->info());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->position(), 9);
  ASSERT_TRUE(image->ReadState(model_->NewState().value().get()).ok());
  EXPECT_EQ(source.left(), 0U);

  BytesSource again(bytes);
  absl::StatusOr<SnapshotInfo> info = ReadSnapshotInfo(&again);
  ASSERT_TRUE(info.ok()) << info.status();
  ExpectSame(info->record, written.record);
  EXPECT_EQ(info->version, 8);
  EXPECT_EQ(info->total_bytes, std::ssize(bytes));
}

TEST_F(SnapshotTest, KeepsTheExtremesOfARecord) {
  SnapshotHead head = Head(9);
  head.record.ttl = absl::InfiniteDuration();
  head.record.parent_id.clear();
  head.record.marks.clear();
  head.record.has_transcript = false;
  head.transcript.clear();
  head.outcomes.clear();
  const Bytes bytes = Written(head);
  BytesSource source(bytes);
  absl::StatusOr<SnapshotHead> read = ReadSnapshotHead(&source);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(read->record, head.record);
  EXPECT_TRUE(read->transcript.empty());
  EXPECT_TRUE(read->outcomes.empty());
}

TEST_F(SnapshotTest, HoldsAMarksState) {
  SnapshotHead head = Head(9);
  head.record.position = 30;
  head.record.marks.push_back({"here", 6, 9});
  head.version = 6;
  EXPECT_TRUE(Read(Written(head)).ok());
}

TEST_F(SnapshotTest, TakesABlobForItsState) {
  BlobWriter writer;
  ASSERT_TRUE(WriteStateImage(model_->info(), Content(), writer.sink()).ok());
  const std::shared_ptr<const Blob> blob = writer.Finish();
  SnapshotHead head = Head(9);
  head.state_bytes = blob->size();
  Bytes bytes;
  ASSERT_TRUE(WriteSnapshotHead(head, AppendTo(&bytes)).ok());
  ASSERT_TRUE(blob->WriteTo(AppendTo(&bytes)).ok());
  EXPECT_EQ(bytes, Written(head));
}

TEST_F(SnapshotTest, SeesEveryTruncation) {
  const Bytes bytes = Written(Head(9));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const absl::Status status = Read(cut);
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size << " " << status;
  }
}

TEST_F(SnapshotTest, SeesEveryFlippedBit) {
  Bytes bytes = Written(Head(9));
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::byte flip{static_cast<unsigned char>(1U << (i % 8))};
    bytes[i] ^= flip;
    const absl::Status status = Read(bytes);
    ASSERT_TRUE(absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status))
        << "byte " << i << ": " << status;
    bytes[i] ^= flip;
  }
  EXPECT_TRUE(Read(bytes).ok());
}

TEST_F(SnapshotTest, RefusesRecordsThatNoSessionHas) {
  const auto problem = [&](const std::function<void(SnapshotHead&)>& change) {
    SnapshotHead head = Head(9);
    change(head);
    return Problem(head);
  };
  EXPECT_THAT(problem([](auto& h) { h.record.id = "../../etc/passwd"; }),
              HasSubstr("record: field \"id\" must be 32 hexadecimal digits"));
  EXPECT_THAT(problem([](auto& h) { h.record.parent_id.assign(31, 'a'); }),
              HasSubstr("\"parent_id\""));
  EXPECT_THAT(problem([](auto& h) { h.record.version = 0; }), HasSubstr("\"version\""));
  EXPECT_THAT(problem([](auto& h) { h.record.persisted_version = 9; }),
              HasSubstr("\"persisted_version\" must be an integer from 0 to 8"));
  EXPECT_THAT(problem([](auto& h) { h.record.position = -1; }), HasSubstr("\"position\""));
  EXPECT_THAT(problem([](auto& h) { h.record.ttl = absl::Seconds(-2); }), HasSubstr("\"ttl_ns\""));
  EXPECT_THAT(problem([](auto& h) { h.record.marks[1].version = 9; }),
              HasSubstr("mark 1: field \"version\" must be an integer from 1 to 8"));
  EXPECT_THAT(problem([](auto& h) { h.record.answer_end->tail.assign(65, 'x'); }),
              HasSubstr("\"answer_tail\" must be at most 64 bytes in hexadecimal"));
  EXPECT_THAT(problem([](auto& h) { h.record.marks[1].answer_end->after = 1; }),
              HasSubstr("mark 1: field \"after_answer\" must be an integer from 0 to 0"));
  EXPECT_THAT(problem([](auto& h) { h.version = 7; }),
              HasSubstr("\"version\" must be the record's own or that of one of its marks"));
  EXPECT_THAT(problem([](auto& h) { h.transcript.pop_back(); }),
              HasSubstr("\"transcript_bytes\" must be those of 9 ids"));
  EXPECT_THAT(problem([](auto& h) { h.transcript[3] = 11; }),
              HasSubstr("transcript[3] is 11, must be 0 to 10"));
  EXPECT_THAT(problem([](auto& h) {
                h.record.position = 10;
                h.transcript.push_back(1);
              }),
              HasSubstr("the state has 9 tokens and 0 pending, must have 10 in all"));
}

// Empty ones take 8 bytes of a snapshot and many times that in memory.
TEST_F(SnapshotTest, HoldsNoMoreOutcomesThanASessionKeeps) {
  SnapshotHead head = Head(9);
  const std::string asked = AskedBy(CallKind::kCompute, 0) + " ";
  const Outcome largest{std::string(kMaxKeyBytes, 'k'), asked + std::string(kMaxReplyBytes, 'r')};
  head.outcomes.assign(Replies::kKept, largest);
  EXPECT_TRUE(Read(Written(head)).ok());
  head.outcomes.assign(Replies::kKept + 1, Outcome{});
  EXPECT_THAT(Problem(head), HasSubstr("has more than 8 outcomes"));
  head.outcomes.assign(2'000'000, Outcome{});
  EXPECT_THAT(Problem(head), HasSubstr("field \"outcomes_bytes\" must be"));
  head.outcomes.assign(1, {"k", std::string(9 * kMaxReplyBytes, 'r')});
  EXPECT_THAT(Problem(head), HasSubstr("field \"outcomes_bytes\" must be"));
}

TEST_F(SnapshotTest, ARecordTooLargeIsNotWritten) {
  SnapshotHead head = Head(9);
  for (int i = 0; i < 30'000; ++i) head.record.marks.push_back({std::string(40, 'm'), 2, 4});
  Bytes bytes;
  EXPECT_EQ(WriteSnapshotHead(head, AppendTo(&bytes)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(bytes.empty());
}

TEST_F(SnapshotTest, TextThatIsNotUtf8DoesNotThrow) {
  SnapshotHead head = Head(9);
  head.record.label.push_back(static_cast<char>(0xff));
  EXPECT_TRUE(Read(Written(head)).ok());
}

TEST_F(SnapshotTest, AMarkAddsNoMoreBytesThanIsCounted) {
  for (const std::string& name :
       {std::string("m"), std::string("\0\x1f\n", 3), std::string("\"\\\"\\"),
        std::string("K\xc3\xa4se"), std::string(kMaxMarkBytes, 'n')}) {
    for (const auto& end :
         {std::optional<AnswerEnd>(), std::optional(AnswerEnd{"", 0}),
          std::optional(AnswerEnd{std::string(AnswerEnd::kMaxTail, 'x'), 64, true})}) {
      constexpr int64_t kMost = int64_t{1} << 60;
      SnapshotHead head = Head(1);
      head.record.version = head.version = kMost;
      const int64_t before = SnapshotHeadBytes(head);
      head.record.marks.push_back({name, kMost, kMost, end});
      const int64_t added = SnapshotHeadBytes(head) - before;
      EXPECT_LE(added, MostJsonBytes(head.record.marks.back())) << name;
      EXPECT_GE(added + 30, MostJsonBytes({.name = "m", .version = kMost, .position = kMost}));
    }
  }
}

}  // namespace
}  // namespace tvq
