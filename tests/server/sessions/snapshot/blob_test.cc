#include "server/sessions/snapshot/blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/server/sessions/byte_vector.h"

namespace tvq {
namespace {

using fixtures::AppendTo;
using fixtures::Bytes;

Bytes RandomBytes(size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// Writes in steps of odd sizes, so that pieces and calls end at different places.
std::shared_ptr<const Blob> Written(const Bytes& bytes, int64_t expected) {
  BlobWriter writer(expected);
  size_t step = 1;
  for (size_t at = 0; at < bytes.size(); step = step * 3 + 1) {
    const size_t n = std::min(step, bytes.size() - at);
    EXPECT_TRUE(writer.Add(std::span(bytes).subspan(at, n)).ok());
    at += n;
  }
  EXPECT_EQ(writer.size(), static_cast<int64_t>(bytes.size()));
  return writer.Finish();
}

TEST(BlobTest, GivesBackWhatWasWritten) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{5000}, size_t{4} << 20, (size_t{9} << 20) + 3}) {
    const Bytes bytes = RandomBytes(size);
    for (int64_t expected : {int64_t{0}, static_cast<int64_t>(size), int64_t{1} << 60}) {
      const std::shared_ptr<const Blob> blob = Written(bytes, expected);
      ASSERT_EQ(blob->size(), static_cast<int64_t>(size));
      Bytes copy;
      ASSERT_TRUE(blob->WriteTo(AppendTo(&copy)).ok());
      ASSERT_EQ(copy, bytes);

      const std::unique_ptr<ByteSource> source = NewSource(blob);
      Bytes read(size);
      const size_t half = size / 2;
      ASSERT_TRUE(source->Read(std::span(read).first(half)).ok());
      ASSERT_TRUE(source->Read(std::span(read).subspan(half)).ok());
      ASSERT_EQ(read, bytes);
      std::byte more;
      EXPECT_EQ(source->Read({&more, 1}).code(), absl::StatusCode::kOutOfRange);
    }
  }
}

TEST(BlobTest, TakesNoMoreMemoryThanAKnownSize) {
  const Bytes bytes = RandomBytes((size_t{5} << 20) + 17);
  EXPECT_EQ(Written(bytes, std::ssize(bytes))->memory_bytes(), std::ssize(bytes));
  // Of unknown size: at most a piece more.
  EXPECT_LT(Written(bytes, 0)->memory_bytes(), std::ssize(bytes) + Blob::kPieceBytes);
  EXPECT_LE(Written(RandomBytes(100), 0)->memory_bytes(), 4096);
}

TEST(BlobTest, ReadsFromTheMiddle) {
  const Bytes bytes = RandomBytes((size_t{8} << 20) + 5);
  const std::shared_ptr<const Blob> blob = Written(bytes, 0);
  for (size_t offset : {size_t{1}, size_t{4} << 20, (size_t{8} << 20) + 4, bytes.size()}) {
    const std::unique_ptr<ByteSource> source = NewSource(blob, static_cast<int64_t>(offset));
    Bytes rest(bytes.size() - offset);
    ASSERT_TRUE(source->Read(rest).ok());
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), bytes.end() - std::ssize(rest)));
  }
}

}  // namespace
}  // namespace tvq
