#include "server/rpc/limits/connections/header_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tvq {
namespace {

constexpr int kData = 0, kHeaders = 1, kContinuation = 9;
constexpr int kEndHeaders = 4;

std::string Frame(int type, int flags, size_t bytes) {
  std::string frame{static_cast<char>(bytes >> 16), static_cast<char>(bytes >> 8),
                    static_cast<char>(bytes), static_cast<char>(type), static_cast<char>(flags)};
  frame.append("\0\0\0\1", 4).append(bytes, '\x09');  // as if all were heads of CONTINUATION
  return frame;
}

class HeaderBlocksTest : public testing::Test {
 protected:
  bool Take(std::string_view bytes, size_t at_once = 1000) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(at_once, bytes.size()))) {
      const std::string_view piece = bytes.substr(0, at_once);
      if (!blocks_.Take({reinterpret_cast<const uint8_t*>(piece.data()), piece.size()})) {
        return false;
      }
    }
    return true;
  }

  void SetUp() override { ASSERT_TRUE(Take("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); }

  HeaderBlocks blocks_;
};

TEST_F(HeaderBlocksTest, LetThroughAnyNumberOfWholeBlocksAndMessages) {
  for (int call = 0; call < 100; ++call) {
    ASSERT_TRUE(Take(Frame(kHeaders, 0, 8000) + Frame(kContinuation, 0, 8000) +
                     Frame(kContinuation, kEndHeaders, 8000)));
    ASSERT_TRUE(Take(Frame(kHeaders, kEndHeaders, 16'384)));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(Take(Frame(kData, 0, 16'384)));
  }
}

TEST_F(HeaderBlocksTest, EndOneThatDoesNotEnd) {
  for (const size_t at_once : {1, 7, 1000, 100'000}) {
    SCOPED_TRACE(at_once);
    blocks_ = HeaderBlocks();
    ASSERT_TRUE(Take(std::string(24, 'p'), at_once));
    ASSERT_TRUE(Take(Frame(kHeaders, 0, 16'000), at_once));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(Take(Frame(kContinuation, 0, 16'000), at_once));
    EXPECT_FALSE(Take(Frame(kContinuation, 0, 16'000), at_once));
  }
}

TEST_F(HeaderBlocksTest, EmptyFramesHaveBytesToo) {
  ASSERT_TRUE(Take(Frame(kHeaders, 0, 10)));
  int frames = 0;
  while (Take(Frame(kContinuation, 0, 0))) ++frames;
  EXPECT_EQ(frames, (HeaderBlocks::kMostBytes - 19) / 9);
}

}  // namespace
}  // namespace tvq
