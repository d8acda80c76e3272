#include "server/sessions/stored_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/sessions/stored_bytes.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TestRecord;

SessionRecord Record(int64_t version, const std::vector<int64_t>& marks = {}) {
  return TestRecord(testing::TestId(1), version, marks);
}

TEST(StoredSessionTest, ContinuesFromTheLatestVersion) {
  StoredSession session;
  EXPECT_EQ(session.Newest(), nullptr);
  session.versions()[3] = {Record(3), 10};
  session.versions()[5] = {Record(5, {3}), 20};
  EXPECT_EQ(session.Newest()->version, 5);
  EXPECT_THAT(session.Superseded(), IsEmpty());
  session.versions()[6] = {Record(6), 20};
  EXPECT_THAT(session.Superseded(), ElementsAre(3, 5));
  EXPECT_EQ(session.bytes(), 50);
}

// A mark's state is stored again when the record changes: whichever was written last knows best.
TEST(StoredSessionTest, OfOneVersionTheLastUsedRecordCounts) {
  StoredSession session;
  session.versions()[5] = {Record(5, {3, 4}), 1};
  SessionRecord later = Record(5, {3});
  later.last_used += absl::Seconds(1);
  session.versions()[3] = {later, 1};
  session.versions()[4] = {Record(5, {3, 4}), 1};
  EXPECT_EQ(session.Newest()->marks.size(), 1U);
  EXPECT_THAT(session.Superseded(), ElementsAre(4));
}

TEST(StoredSessionTest, AMarkWithoutTheSessionsOwnStateDoesNotSupersede) {
  StoredSession session;
  session.versions()[5] = {Record(5), 1};
  session.versions()[3] = {Record(7, {3}), 1};  // 7 itself is still to come
  EXPECT_EQ(session.Newest()->version, 5);
  EXPECT_THAT(session.Superseded(), IsEmpty());
  session.versions()[7] = {Record(7, {3}), 1};
  EXPECT_EQ(session.Newest()->version, 7);
  EXPECT_THAT(session.Superseded(), ElementsAre(5));
}

TEST(StoredSessionTest, WhatIsLeftOfADamagedOneKnowsHowItsAnswersEnded) {
  StoredSession session;
  SessionRecord first = Record(3);
  first.answer_end = AnswerEnd{"first", 0};
  SessionRecord second = Record(4, {3});
  second.answer_end = AnswerEnd{"second", 0};
  second.marks[0].answer_end = AnswerEnd{"marked", 1};
  session.versions()[2] = {Record(2), 1};
  session.versions()[3] = {first, 1};
  session.damaged()[5] = {absl::DataLossError("torn"), 1, Record(5)};
  auto marks = session.Current(first.id)->marks;
  ASSERT_EQ(marks.size(), 2U);
  EXPECT_EQ(marks[0].answer_end, std::nullopt);
  EXPECT_EQ(marks[1].answer_end, first.answer_end);

  session.versions()[3] = {second, 1};  // it is a mark's of the later record
  marks = session.Current(first.id)->marks;
  EXPECT_EQ(marks[1].name, "version 3");
  EXPECT_EQ(marks[1].answer_end, second.marks[0].answer_end);
}

}  // namespace
}  // namespace tvq
