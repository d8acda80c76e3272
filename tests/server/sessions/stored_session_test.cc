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

}  // namespace
}  // namespace tvq
