#include "server/sessions/snapshot/holders.h"

#include <gtest/gtest.h>

#include <vector>

namespace tvq {
namespace {

TEST(HoldersTest, AllAreStoredOnceTheLastIs) {
  Holders holders;
  EXPECT_TRUE(holders.empty());
  EXPECT_FALSE(holders.all_stored()) << "nobody has a copy";
  holders.Add({"a", 1}, /*stored=*/false);
  holders.Add({"b", 2}, /*stored=*/true);
  EXPECT_TRUE(holders.any_stored());
  EXPECT_FALSE(holders.all_stored());
  EXPECT_EQ(holders.FirstUnstored(), "a");
  EXPECT_TRUE(holders.HasUnstored("a"));
  EXPECT_FALSE(holders.HasUnstored("b"));
  holders.SetStored({"a", 1}, true);
  EXPECT_TRUE(holders.IsStored({"a", 1}));
  EXPECT_TRUE(holders.all_stored());
  holders.SetStored({"b", 2}, false);
  EXPECT_FALSE(holders.IsStored({"b", 2}));
  EXPECT_FALSE(holders.all_stored());
  holders.Remove({"b", 2});
  EXPECT_TRUE(holders.all_stored());
  holders.Remove({"a", 1});
  EXPECT_TRUE(holders.empty());
}

TEST(HoldersTest, WhoIsNoHolderIsNotMadeOne) {
  Holders holders;
  holders.Add({"a", 1}, /*stored=*/false);
  holders.SetStored({"a", 2}, true);
  holders.SetStored({"b", 1}, false);
  holders.Remove({"c", 1});
  EXPECT_FALSE(holders.any_stored());
  EXPECT_TRUE(holders.HasUnstored("a"));
  EXPECT_FALSE(holders.HasUnstored("b"));
  holders.Remove({"a", 1});
  EXPECT_TRUE(holders.empty());
}

TEST(HoldersTest, ShowsWhatIsStoredOneByOne) {
  Holders holders;
  for (const char* const id : {"c", "a", "b"}) holders.Add({id, 3}, /*stored=*/true);
  holders.Add({"a", 1}, /*stored=*/true);
  holders.Add({"a", 2}, /*stored=*/false);
  std::vector<StoredPlace> seen;
  for (auto at = holders.NextStored({}); at; at = holders.NextStored(*at)) seen.push_back(*at);
  EXPECT_EQ(seen, (std::vector<StoredPlace>{{"a", 1}, {"a", 3}, {"b", 3}, {"c", 3}}));
}

}  // namespace
}  // namespace tvq
