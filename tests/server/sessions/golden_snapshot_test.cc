// Snapshots of every version of the format that a server ever wrote and still has to read.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "server/sessions/snapshot/snapshot.h"
#include "tests/server/sessions/byte_vector.h"
#include "tests/server/sessions/tiny_model.h"

namespace tvq {
namespace {

using fixtures::AppendTo;
using fixtures::Bytes;
using fixtures::BytesSource;
using fixtures::TinyModel;

constexpr char kVersion1[] = "tests/golden/snapshots/v1.snap";
constexpr char kVersion2[] = "tests/golden/snapshots/v2.snap";  // of the same session

Bytes ReadAll(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class GoldenSnapshotTest : public ::testing::Test {
 protected:
  GoldenSnapshotTest() : model_(TinyModel()), state_(model_->NewState().value()) {}

  // Through head and state; the whole of it again.
  Bytes ReadAndWrite(const Bytes& bytes) {
    BytesSource source(bytes);
    absl::StatusOr<SnapshotHead> head = ReadSnapshotHead(&source);
    EXPECT_TRUE(head.ok()) << head.status();
    if (!head.ok()) return {};
    auto image = OpenSnapshotState(*head, &source, model_->info());
    EXPECT_TRUE(image.ok()) << image.status();
    if (!image.ok()) return {};
    const absl::Status read = image->ReadState(state_.get());
    EXPECT_TRUE(read.ok()) << read;
    EXPECT_EQ(source.left(), 0U);
    Bytes again;
    const StateContent content{state_.get(), image->pending(), image->logits()};
    head->state_bytes = StateImageBytes(model_->info(), content);
    EXPECT_TRUE(WriteSnapshotHead(*head, AppendTo(&again)).ok());
    EXPECT_TRUE(WriteStateImage(model_->info(), content, AppendTo(&again)).ok());
    head_ = *std::move(head);
    return again;
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<State> state_;
  SnapshotHead head_;
};

TEST_F(GoldenSnapshotTest, Version2IsReadAndWrittenAsItWas) {
  const Bytes bytes = ReadAll(kVersion2);
  ASSERT_FALSE(bytes.empty()) << kVersion2;
  EXPECT_EQ(ReadAndWrite(bytes), bytes);
}

// Whose sections have no shape yet.
TEST_F(GoldenSnapshotTest, Version1IsRead) {
  const Bytes bytes = ReadAll(kVersion1);
  ASSERT_FALSE(bytes.empty()) << kVersion1;
  const Bytes again = ReadAndWrite(bytes);
  EXPECT_EQ(again, ReadAll(kVersion2));

  const SessionRecord& record = head_.record;
  EXPECT_EQ(record.id, "00112233445566778899aabbccddeeff");
  EXPECT_EQ(record.owner, "golden");
  EXPECT_EQ(record.label, "sch\xc3\xb6n");
  EXPECT_EQ(record.parent_id, "ffeeddccbbaa99887766554433221100");
  EXPECT_EQ(record.parent_version, 2);
  EXPECT_EQ(record.version, 5);
  EXPECT_EQ(record.persisted_version, 4);
  EXPECT_EQ(record.position, 12);
  EXPECT_EQ(record.created, absl::FromUnixNanos(1'750'000'000'000'000'001));
  EXPECT_EQ(record.last_used, absl::FromUnixNanos(1'750'000'100'000'000'002));
  EXPECT_EQ(record.ttl, absl::Hours(1));
  ASSERT_EQ(record.marks.size(), 1U);
  EXPECT_EQ(record.marks[0].name, "start");
  EXPECT_EQ(head_.version, 5);
  EXPECT_EQ(head_.transcript, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}));
  ASSERT_EQ(head_.outcomes.size(), 1U);
  EXPECT_EQ(head_.outcomes[0].reply, "reply");
  EXPECT_EQ(state_->position(), 11);  // and one token pending
}

}  // namespace
}  // namespace tvq
