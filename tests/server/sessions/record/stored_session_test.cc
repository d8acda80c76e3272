#include "server/sessions/record/stored_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/sessions/stored_bytes.h"

namespace tvq {
namespace {

using fixtures::TestRecord;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

SessionRecord Record(int64_t version, const std::vector<int64_t>& marks = {}) {
  return TestRecord(fixtures::TestId(1), version, marks);
}

TEST(StoredSessionTest, ContinuesFromTheLatestVersion) {
  StoredSession session;
  EXPECT_EQ(session.Newest(), nullptr);
  session.Add(3, Record(3), 10);
  session.Add(5, Record(5, {3}), 20);
  EXPECT_EQ(session.Newest()->version, 5);
  EXPECT_THAT(session.Superseded(), IsEmpty());
  session.Add(6, Record(6), 20);
  EXPECT_THAT(session.Superseded(), ElementsAre(3, 5));
  EXPECT_EQ(session.bytes(), 50);
}

// What is stored with a mark's state need not name the other marks.
TEST(StoredSessionTest, TheRecordBesideTheSessionsOwnStateCounts) {
  for (const bool own_first : {true, false}) {
    StoredSession session;
    if (own_first) session.Add(5, Record(5, {3, 4}), 1);
    SessionRecord later = Record(5, {3});
    later.last_used += absl::Seconds(1);
    session.Add(3, later, 1);
    session.Add(4, Record(5, {4}), 1);
    if (!own_first) session.Add(5, Record(5, {3, 4}), 1);
    EXPECT_EQ(session.Newest()->marks.size(), 2U);
    EXPECT_THAT(session.Superseded(), IsEmpty());
  }
}

// A mark's state of a version that was not reached: the session may never have been there.
TEST(StoredSessionTest, DoesNotContinueFromAMarkOfARecordThatNeverCame) {
  StoredSession session;
  session.Add(2, Record(2), 1);
  session.Add(3, Record(5, {3, 4}), 1);
  session.Add(4, Record(3, {4}), 1);
  EXPECT_EQ(session.Newest()->version, 2);
  EXPECT_THAT(session.Superseded(), IsEmpty());
}

// Stored one after the other, as with durability DISK, or all with one record, as by one save.
TEST(StoredSessionTest, ManyMarksTakeMemoryOnce) {
  constexpr int64_t kMarks = 300;
  std::vector<int64_t> all;
  StoredSession grown, saved;
  for (int64_t version = 1; version <= kMarks; ++version) {
    all.push_back(version);
    grown.Add(version, Record(version, all), 1);
  }
  for (int64_t version : all) saved.Add(version, Record(kMarks, all), 1);
  for (const StoredSession* session : {&grown, &saved}) {
    EXPECT_EQ(std::ssize(session->Newest()->marks), kMarks);
    EXPECT_THAT(session->Superseded(), IsEmpty());
    size_t kept = 0;
    for (const auto& [version, stored] : session->versions()) kept += stored.record.marks.size();
    EXPECT_EQ(kept, static_cast<size_t>(2 * kMarks - 1));
  }
}

TEST(StoredSessionTest, KnowsWhatWouldBeSuperseded) {
  StoredSession session;
  session.Add(3, Record(3), 1);
  session.Add(4, Record(4, {3}), 1);
  EXPECT_THAT(session.SupersededBy(Record(6, {4})), ElementsAre(3));
  EXPECT_THAT(session.SupersededBy(Record(6)), ElementsAre(3, 4));
  session.damaged()[7] = {absl::DataLossError("torn"), 1, std::nullopt};
  EXPECT_THAT(session.SupersededBy(Record(6)), IsEmpty()) << "each may be the best that is left";
  EXPECT_THAT(session.SupersededBy(Record(7, {4})), ElementsAre(3));
}

// Without the newest record every mark's own snapshot tells its name.
TEST(StoredSessionTest, MarksKeepTheirNamesWhereTheNewestRecordIsLost) {
  StoredSession session;
  session.Add(2, Record(9, {2}), 1);
  session.Add(4, Record(9, {4}), 1);
  SessionRecord moved = Record(9, {6});
  moved.marks[0].name = "mark 2";  // the name went on, and the file of version 2 stayed
  session.Add(6, moved, 1);
  session.Add(8, Record(8), 1);
  session.damaged()[9] = {absl::DataLossError("torn"), 1, std::nullopt};
  std::vector<std::string> names;
  const auto current = session.Current(fixtures::TestId(1));
  for (const MarkRecord& mark : current->marks) {
    names.push_back(absl::StrCat(mark.version, ": ", mark.name));
  }
  EXPECT_THAT(names, ElementsAre("2: version 2", "4: mark 4", "6: mark 2", "8: version 8"));
}

TEST(StoredSessionTest, AMarkWithoutTheSessionsOwnStateDoesNotSupersede) {
  StoredSession session;
  session.Add(5, Record(5), 1);
  session.Add(3, Record(7, {3}), 1);  // 7 itself is still to come
  EXPECT_EQ(session.Newest()->version, 5);
  EXPECT_THAT(session.Superseded(), IsEmpty());
  session.Add(7, Record(7, {3}), 1);
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
  session.Add(2, Record(2), 1);
  session.Add(3, first, 1);
  session.damaged()[5] = {absl::DataLossError("torn"), 1, Record(5)};
  auto marks = session.Current(first.id)->marks;
  ASSERT_EQ(marks.size(), 2U);
  EXPECT_EQ(marks[0].answer_end, std::nullopt);
  EXPECT_EQ(marks[1].answer_end, first.answer_end);

  session.Add(3, second, 1);  // it is a mark's of the later record
  marks = session.Current(first.id)->marks;
  EXPECT_EQ(marks[1].name, "version 3");
  EXPECT_EQ(marks[1].answer_end, second.marks[0].answer_end);
}

}  // namespace
}  // namespace tvq
