#include "models/runtime/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/models/runtime/safetensors_bytes.h"
#include "tests/models/runtime/temp_dir.h"

namespace tvq {
namespace {

using fixtures::SafetensorsBytes;
using fixtures::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tensors, an empty one and a scalar; 8 + 6 + 0 + 8 data bytes.
constexpr char kHeader[] =
    R"({"__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [3, 1], "data_offsets": [8, 14]},
        "none": {"dtype": "I8", "shape": [0, 7], "data_offsets": [14, 14]},
        "one": {"dtype": "I64", "shape": [], "data_offsets": [14, 22]}})";

std::string GoodFile() {
  std::string data(22, '\0');
  const float a[2] = {1.5f, -2.0f};
  std::memcpy(data.data(), a, sizeof a);
  return SafetensorsBytes(kHeader, data);
}

absl::StatusOr<SafetensorsContent> Parse(std::string_view file) {
  return ParseSafetensors(std::as_bytes(std::span(file.data(), file.size())), "w.safetensors");
}

std::string Message(std::string_view header, size_t data_size) {
  const absl::Status status = Parse(SafetensorsBytes(header, std::string(data_size, 'x'))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << header;
  EXPECT_THAT(std::string(status.message()), HasSubstr("w.safetensors"));
  return std::string(status.message());
}

// A header with the one tensor "t".
std::string One(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  std::string header = R"({"t": {"dtype": ")";
  return header.append(dtype)
      .append(R"(", "shape": )")
      .append(shape)
      .append(R"(, "data_offsets": )")
      .append(offsets)
      .append("}}");
}

TEST(SafetensorsTest, OpensAFileAndReadsItsTensors) {
  const TempDir dir;
  const std::string path = dir.Write("w.safetensors", GoodFile());
  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ((*file)->tensors().size(), 4);
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  const HostTensor* a = (*file)->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, HostDType::kF32);
  EXPECT_THAT(a->shape, ElementsAre(2));
  float values[2];
  std::memcpy(values, a->data, sizeof values);
  EXPECT_THAT(values, ElementsAre(1.5f, -2.0f));
  const HostTensor* b = (*file)->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(static_cast<const char*>(b->data) - static_cast<const char*>(a->data), 8);
  EXPECT_EQ((*file)->Find("none")->ByteSize(), 0);
  EXPECT_EQ((*file)->Find("one")->ElementCount(), 1);
  EXPECT_EQ((*file)->Find("absent"), nullptr);
}

TEST(SafetensorsTest, AcceptsAHeaderPaddedWithSpaces) {
  EXPECT_TRUE(Parse(SafetensorsBytes("{}   ", "")).ok());
  EXPECT_TRUE(Parse(SafetensorsBytes(One("U8", "[3]", "[0, 3]") + "    ", "abc")).ok());
}

TEST(SafetensorsTest, OpenNamesAMissingOrEmptyFile) {
  const TempDir dir;
  const absl::Status missing = SafetensorsFile::Open(dir.path() + "/no").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(dir.path() + "/no"));
  const absl::Status empty = SafetensorsFile::Open(dir.Write("e", "")).status();
  EXPECT_THAT(std::string(empty.message()), HasSubstr("has 0 bytes"));
  EXPECT_EQ(SafetensorsFile::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsTest, RefusesAHeaderLengthThatLies) {
  std::string file = GoodFile();
  file[7] = '\x7f';
  EXPECT_THAT(std::string(Parse(file).status().message()),
              HasSubstr("header length at offset 0 is 9151314442816848"));
  file = GoodFile();
  file[2] = '\x10';
  EXPECT_THAT(std::string(Parse(file).status().message()), HasSubstr("bytes follow"));
}

TEST(SafetensorsTest, RefusesAHeaderThatIsNotAnObjectOfTensors) {
  EXPECT_THAT(Message("[1]", 0), HasSubstr("the header at offset 8 must be a JSON object"));
  EXPECT_THAT(Message("{\"a\": 3}", 0), HasSubstr("tensor \"a\" is not described by an object"));
  EXPECT_THAT(Message("{\"a\": {}}", 0), HasSubstr("tensor \"a\" has no \"dtype\""));
  EXPECT_THAT(Message(R"({"__metadata__": {"a": 1}})", 0), HasSubstr("\"a\" is not a string"));
  EXPECT_THAT(Message(R"({"__metadata__": []})", 0), HasSubstr("\"__metadata__\""));
  EXPECT_THAT(Message(R"({"a": {"dtype": "U8", "shape": [[1]], "data_offsets": [0, 1]}})", 1),
              HasSubstr("nests deeper"));
  const std::string tensor = R"("a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})";
  EXPECT_THAT(Message("{" + tensor + "," + tensor + "}", 1), HasSubstr("\"a\" twice"));
}

TEST(SafetensorsTest, RefusesWrongDTypesShapesAndOffsets) {
  EXPECT_THAT(Message(One("F31", "[1]", "[0, 4]"), 4), HasSubstr("tensor \"t\" has dtype \"F31\""));
  EXPECT_THAT(Message(One("F32", "[-1]", "[0, 4]"), 4), HasSubstr("\"shape\""));
  EXPECT_THAT(Message(One("F32", "[1.0]", "[0, 4]"), 4), HasSubstr("\"shape\""));
  EXPECT_THAT(Message(One("F32", "1", "[0, 4]"), 4), HasSubstr("\"shape\""));
  EXPECT_THAT(Message(One("F32", "[18446744073709551615]", "[0, 4]"), 4), HasSubstr("\"shape\""));
  EXPECT_THAT(Message(One("F32", "[1]", "[0]"), 4), HasSubstr("\"data_offsets\""));
  EXPECT_THAT(Message(One("F32", "[1]", "[-4, 0]"), 4), HasSubstr("\"data_offsets\""));
  EXPECT_THAT(Message(One("F32", "[1]", "[4, 0]"), 4), HasSubstr("must ascend"));
  EXPECT_THAT(Message(One("F32", "[1]", "[0, 8]"), 4), HasSubstr("[0, 8]"));
  EXPECT_THAT(Message(One("F32", "[2]", "[0, 4]"), 4), HasSubstr("takes 8 bytes"));
}

TEST(SafetensorsTest, RefusesShapesWhoseProductOverflows) {
  // 2^32 * 2^32 * 1 byte wraps to 0, and 2^62 * 4 bytes too.
  EXPECT_THAT(Message(One("U8", "[4294967296, 4294967296]", "[0, 0]"), 0),
              HasSubstr("more than 2^64"));
  EXPECT_THAT(Message(One("F32", "[4611686018427387904]", "[0, 0]"), 0),
              HasSubstr("more than 2^64"));
  auto empty = Parse(
      SafetensorsBytes(One("F32", "[9223372036854775807, 9223372036854775807, 0]", "[0, 0]"), ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->tensors.at("t").ElementCount(), 0);
}

TEST(SafetensorsTest, RefusesGapsOverlapsAndTrailingBytes) {
  const std::string a = R"("a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]})";
  EXPECT_THAT(Message("{" + a + "}", 5), HasSubstr("but the file has"));
  EXPECT_THAT(
      Message("{" + a + R"(, "b": {"dtype": "U8", "shape": [2], "data_offsets": [5, 7]}})", 7),
      HasSubstr("tensor \"b\" begins at data offset 5 (file offset"));
  EXPECT_THAT(
      Message("{" + a + R"(, "b": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]}})", 5),
      HasSubstr("they overlap"));
  EXPECT_THAT(Message(One("U8", "[2]", "[1, 3]"), 3), HasSubstr("there is a gap"));
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string file = GoodFile();
  ASSERT_TRUE(Parse(file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    // An exact-sized heap copy, so that AddressSanitizer sees a read beyond the end.
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(Parse({cut.data(), cut.size()}).status().code(), absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(SafetensorsTest, WhateverAMutationLeavesAcceptedLiesInTheFile) {
  const std::string good = GoodFile();
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::string file = good;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      file[random() % file.size()] = static_cast<char>(random() % 256);
    }
    const auto content = Parse(file);
    if (!content.ok()) continue;
    ++accepted;
    for (const auto& [name, tensor] : content->tensors) {
      const char* begin = static_cast<const char*>(tensor.data);
      ASSERT_GE(begin, file.data());
      ASSERT_LE(begin + tensor.ByteSize(), file.data() + file.size());
    }
  }
  EXPECT_GT(accepted, 0);  // changed data bytes and names do no harm
}

// The CRC-32 of "123456789" is cbf43926 by the definition of the code.
constexpr char kWithChecksum[] =
    R"({"__metadata__": {"crc32.t": "cbf43926"}, "t": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}})";

TEST(SafetensorsTest, NoticesDamageByItsChecksum) {
  const TempDir dir;
  const auto good = SafetensorsFile::Open(
      dir.Write("w.safetensors", SafetensorsBytes(kWithChecksum, "123456789")));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_TRUE((*good)->CheckIntegrity("t").ok()) << (*good)->CheckIntegrity("t");

  const std::string file = SafetensorsBytes(kWithChecksum, "123456689");
  const auto damaged = SafetensorsFile::Open(dir.Write("d.safetensors", file));
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  const absl::Status status = (*damaged)->CheckIntegrity("t");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("d.safetensors"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("tensor \"t\" at offset ", file.size() - 9, " is damaged")));
}

// Larger than what is summed at once, by several tasks: the sums of its parts make one.
TEST(SafetensorsTest, AddsUpTheChecksumOfALargeTensorFromItsParts) {
  std::string data(size_t{5} << 19, 'x');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i >> 7);
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  const std::string header = absl::StrFormat(
      R"({"__metadata__": {"crc32.t": "%08x"}, "t": {"dtype": "U8", "shape": [%d], "data_offsets": [0, %d]}})",
      sum, data.size(), data.size());
  const auto backwards = [](int64_t n, const std::function<void(int64_t)>& task) {
    while (n > 0) task(--n);
  };
  const TempDir dir;
  const auto check = [&](const char* name) {
    const auto file = SafetensorsFile::Open(dir.Write(name, SafetensorsBytes(header, data)));
    return (*file)->CheckIntegrity("t", backwards).code();
  };
  EXPECT_EQ(check("w.safetensors"), absl::StatusCode::kOk);
  for (const size_t at : {size_t{0}, (size_t{1} << 20) - 1, size_t{2} << 20, data.size() - 1}) {
    data[at] ^= 1;
    EXPECT_EQ(check("d.safetensors"), absl::StatusCode::kDataLoss) << at;
    data[at] ^= 1;
  }
}

TEST(SafetensorsTest, TakesATensorWithoutChecksumAsItIs) {
  const TempDir dir;
  const auto file = SafetensorsFile::Open(dir.Write("w.safetensors", GoodFile()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->CheckIntegrity("a").ok());
}

}  // namespace
}  // namespace tvq
