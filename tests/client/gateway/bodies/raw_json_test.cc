#include "client/gateway/bodies/raw_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tvq::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<std::string, std::string>> Members(std::string_view object) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const RawMember& member : MembersOf(object)) members.emplace_back(member.name, member.value);
  return members;
}

TEST(RawJsonTest, MembersAreAsTheyStand) {
  EXPECT_THAT(Members(R"( { "b" : 1.50 ,"a":[1, {"c": "]"}],"e":{},"d": "x\"}y" , "n":null} )"),
              ElementsAre(Pair("b", "1.50"), Pair("a", R"([1, {"c": "]"}])"), Pair("e", "{}"),
                          Pair("d", R"("x\"}y")"), Pair("n", "null")));
  EXPECT_THAT(Members(R"({"\u0061\n":true,"a":-1e9})"),
              ElementsAre(Pair("a\n", "true"), Pair("a", "-1e9")));
  EXPECT_THAT(Members("{ }"), IsEmpty());
}

TEST(RawJsonTest, ItemsAreAsTheyStand) {
  EXPECT_THAT(ItemsOf(R"([ 1 , "a,]" ,[[]],{"x":[]} , false])"),
              ElementsAre("1", R"("a,]")", "[[]]", R"({"x":[]})", "false"));
  EXPECT_THAT(ItemsOf(" [ ] "), IsEmpty());
}

}  // namespace
}  // namespace tvq::gateway
