#include "base/nearest.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(NearestTest, FindsWhatWasMeant) {
  const std::vector<std::string> words = {"max-tokens", "min-tokens", "seed", "server", "model"};
  EXPECT_EQ(Nearest("max_tokens", words), "max-tokens");
  EXPECT_EQ(Nearest("mix-tokens", words), "max-tokens") << "the first of two that are as near";
  EXPECT_EQ(Nearest("sede", words), "seed") << "swapped";
  EXPECT_EQ(Nearest("modl", words), "model");
  EXPECT_EQ(Nearest("modells", words), "model");
  EXPECT_EQ(Nearest("serve", words), "server");
  EXPECT_EQ(Nearest("verbose", words), "");
  EXPECT_EQ(Nearest("", words), "");
  EXPECT_EQ(Nearest("seed", {}), "");
}

}  // namespace
}  // namespace tvq
