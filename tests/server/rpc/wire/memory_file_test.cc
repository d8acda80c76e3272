#include "server/rpc/wire/memory_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace tvq {
namespace {

std::string Rest(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(MemoryFileTest, IsReadByItsPath) {
  MemoryFile file;
  EXPECT_EQ(file.path(), "");
  ASSERT_TRUE(file.Replace("first").ok());
  std::ifstream in(file.path());
  EXPECT_EQ(Rest(in), "first");
}

TEST(MemoryFileTest, KeepsItsPathWhenReplaced) {
  MemoryFile file;
  ASSERT_TRUE(file.Replace("the first, longer text").ok());
  const std::string path = file.path();
  ASSERT_TRUE(file.Replace("second").ok());
  EXPECT_EQ(file.path(), path);
  std::ifstream in(path);
  EXPECT_EQ(Rest(in), "second");
}

TEST(MemoryFileTest, WhoReadsGoesOnWithTheOldText) {
  const std::string old_text(1 << 20, 'a');  // longer than what a stream reads ahead
  MemoryFile file;
  ASSERT_TRUE(file.Replace(old_text).ok());
  std::ifstream in(file.path());
  std::string text(1, static_cast<char>(in.get()));
  ASSERT_TRUE(file.Replace(std::string(1 << 20, 'b')).ok());
  EXPECT_EQ(text + Rest(in), old_text);
}

TEST(MemoryFileTest, IsGoneWithItsOwner) {
  std::string path;
  {
    MemoryFile file;
    ASSERT_TRUE(file.Replace("text").ok());
    path = file.path();
  }
  EXPECT_FALSE(std::ifstream(path).is_open());
}

}  // namespace
}  // namespace tvq
