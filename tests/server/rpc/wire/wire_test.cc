#include "server/rpc/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tvq/v1/generation.pb.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

grpc::ByteBuffer Bytes(const std::string& bytes) {
  // Two slices, for a request comes in as many as the network likes.
  const size_t half = bytes.size() / 2;
  const grpc::Slice slices[] = {grpc::Slice(bytes.substr(0, half)),
                                grpc::Slice(bytes.substr(half))};
  return grpc::ByteBuffer(slices, 2);
}

// A length-delimited field with a number below 16.
std::string Field(int number, const std::string& value) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}

TEST(WireTest, RoundTrip) {
  v1::GenerateRequest request;
  request.set_model("m");
  request.set_text("gr\xC3\xBC\xC3\x9F dich");
  request.mutable_sampling()->set_temperature(0);
  v1::GenerateRequest parsed;
  const auto bytes = SerializeMessage(request);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_TRUE(ParseMessage(*bytes, &parsed).ok());
  EXPECT_EQ(parsed.text(), request.text());
  EXPECT_TRUE(parsed.sampling().has_temperature());
  EXPECT_TRUE(ParseMessage(Bytes(""), &parsed).ok());
}

TEST(WireTest, RefusesToWriteMoreThanTheLimit) {
  v1::DetokenizeResponse response;
  response.set_text(std::string(98, 'x'));  // 100 bytes with the field's number and length
  EXPECT_TRUE(SerializeMessage(response, 100).ok());
  const absl::Status status = SerializeMessage(response, 99).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("100 bytes"));
}

TEST(WireTest, NamesTextThatIsNotUtf8) {
  v1::GenerateRequest parsed;
  const absl::Status status = ParseMessage(Bytes(Field(2, "abc\xFF")), &parsed);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("text: text is not valid UTF-8 at byte offset 3"));
}

TEST(WireTest, NamesNestedText) {
  v1::GenerateRequest parsed;
  const absl::Status status = ParseMessage(Bytes(Field(4, Field(9, "\xC0\x80"))), &parsed);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("sampling.stop: text is not valid UTF-8 at byte offset 0"));
}

TEST(WireTest, RefusesWhatIsNoMessage) {
  v1::GenerateRequest parsed;
  for (const std::string& bytes : {std::string("\xFF\xFF\xFF"), std::string("\x12\x7F"
                                                                            "a")}) {
    const absl::Status status = ParseMessage(Bytes(bytes), &parsed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tvq.v1.GenerateRequest"));
  }
}

}  // namespace
}  // namespace tvq
