#include "server/sessions/snapshot/state_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/sessions/snapshot/blob.h"
#include "tests/server/sessions/byte_vector.h"
#include "tests/server/sessions/tiny_model.h"

namespace tvq {
namespace {

using fixtures::AppendTo;
using fixtures::Bytes;
using fixtures::BytesSource;
using fixtures::Fed;
using fixtures::FeedTokens;
using fixtures::StepOnce;
using fixtures::TinyModel;
using ::testing::HasSubstr;

Bytes Image(const Model& model, const StateContent& content) {
  Bytes bytes;
  const absl::Status status = WriteStateImage(model.info(), content, AppendTo(&bytes));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(StateImageBytes(model.info(), content), std::ssize(bytes));
  return bytes;
}

Bytes ImageAfter(Model& model, int64_t tokens) {
  const Fed fed = FeedTokens(model, tokens);
  return Image(model, {fed.state.get(), {}, fed.logits});
}

absl::Status ReadAll(const Bytes& bytes, Model& model, State* state) {
  BytesSource source(bytes);
  auto reader = StateImageReader::Open(&source, model.info());
  return reader.ok() ? reader->ReadState(state) : reader.status();
}

absl::Status CheckAll(const Bytes& bytes, const Model& model) {
  BytesSource source(bytes);
  auto reader = StateImageReader::Open(&source, model.info());
  return reader.ok() ? reader->CheckState() : reader.status();
}

// Reads into a state that held something else; on an error it must be blank.
absl::Status Read(const Bytes& bytes, Model& model) {
  const Fed other = FeedTokens(model, 30, 5);
  const absl::Status status = ReadAll(bytes, model, other.state.get());
  EXPECT_TRUE(other.state->position() == 0 || other.state->position() == 30 || status.ok());
  return status;
}

// Where the JSON is, how long, and the sizes of the sections behind it.
nlohmann::json HeaderOf(const Bytes& bytes) {
  uint32_t length;
  std::memcpy(&length, bytes.data() + 16, sizeof(length));
  return nlohmann::json::parse(reinterpret_cast<const char*>(bytes.data()) + 24,
                               reinterpret_cast<const char*>(bytes.data()) + 24 + length);
}

// The image with `to` in the place of `from` in its header, and all checksums right again, as
// somebody who writes images would.
Bytes Forged(Bytes bytes, std::string_view from, std::string_view to) {
  const nlohmann::json header = HeaderOf(bytes);
  EXPECT_EQ(from.size(), to.size());
  auto* text = reinterpret_cast<char*>(bytes.data());
  const size_t at = std::string_view(text, bytes.size()).find(from);
  EXPECT_NE(at, std::string_view::npos) << from;
  std::memcpy(text + at, to.data(), to.size());

  uint32_t length;
  std::memcpy(&length, text + 16, sizeof(length));
  uint64_t seed = 0;
  char* begin = text;
  size_t size = 24 + length;
  const auto seal = [&] {
    const uint64_t checksum = XXH3_64bits_withSeed(begin, size, seed);
    std::memcpy(begin + size, &checksum, sizeof(checksum));
    begin += size + sizeof(checksum);
    return checksum;
  };
  seed = seal();
  for (const auto& section : header["sections"]) {
    ++seed;
    size = section["bytes"];
    seal();
  }
  return bytes;
}

std::string Problem(const absl::Status& status,
                    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(StateImageTest, RestoresTheStateBitForBit) {
  for (DType state_dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto model = TinyModel(1, DType::kFloat32, state_dtype);
    for (int64_t tokens : {1, 4, 5, 6, 40}) {
      Fed fed = FeedTokens(*model, tokens);
      const Bytes bytes = Image(*model, {fed.state.get(), {}, fed.logits});
      BytesSource source(bytes);
      auto reader = StateImageReader::Open(&source, model->info());
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ(reader->position(), tokens);
      EXPECT_EQ(reader->logits(), fed.logits);
      EXPECT_TRUE(reader->pending().empty());
      EXPECT_EQ(reader->image_bytes(), std::ssize(bytes));
      const auto state = model->NewState().value();
      const absl::Status status = reader->ReadState(state.get());
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(source.left(), 0U);
      EXPECT_EQ(Image(*model, {state.get(), {}, fed.logits}), bytes);
      for (int32_t token : {3, 1, 4, 1, 5}) {
        ASSERT_EQ(StepOnce(*model, *state, token), StepOnce(*model, *fed.state, token));
      }
    }
  }
}

TEST(StateImageTest, NoImageIsLargerThanTheBound) {
  for (DType state_dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto model = TinyModel(1, DType::kFloat32, state_dtype);
    const int64_t bound = LargestStateImage(*model).value();
    for (int64_t tokens : {1, 4, 5, 6, 40, 400}) {
      EXPECT_LE(std::ssize(ImageAfter(*model, tokens)), bound) << tokens;
    }
  }
}

TEST(StateImageTest, KeepsAPendingTokenInPlaceOfLogits) {
  const auto model = TinyModel();
  const Fed fed = FeedTokens(*model, 7);
  const std::vector<int32_t> pending{10};
  const Bytes bytes = Image(*model, {fed.state.get(), pending, {}});
  BytesSource source(bytes);
  auto reader = StateImageReader::Open(&source, model->info());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->pending(), pending);
  EXPECT_TRUE(reader->logits().empty());
}

TEST(StateImageTest, IsMadeAsItIsRead) {
  const auto model = TinyModel();
  const std::vector<int32_t> pending{3};
  const auto check = [&](const StateContent& content) {
    const Bytes whole = Image(*model, content);
    for (const size_t piece : {size_t{1}, size_t{100}, whole.size()}) {
      StateImageSource source(model->info(), content);
      Bytes read(whole.size());
      for (size_t at = 0; at < read.size(); at += piece) {
        const size_t n = std::min(piece, read.size() - at);
        ASSERT_TRUE(source.Read(std::span(read).subspan(at, n)).ok());
      }
      EXPECT_EQ(read, whole);
      std::byte more;
      EXPECT_EQ(source.Read({&more, 1}).code(), absl::StatusCode::kOutOfRange);
    }
  };
  check({});
  const Fed fed = FeedTokens(*model, 9);
  check({fed.state.get(), {}, fed.logits});
  check({fed.state.get(), pending, {}});
}

// A source that is interrupted between two sections goes on with the next.
TEST(StateImageTest, AStateIsVisitedFromAnySection) {
  const auto model = TinyModel();
  const Fed fed = FeedTokens(*model, 9);
  const std::vector<SectionInfo> sections = fed.state->Sections();
  for (size_t first = 0; first <= sections.size(); ++first) {
    std::vector<std::string> seen;
    const auto status =
        fed.state->VisitSectionsFrom(first, [&](const SectionInfo& section, auto bytes) {
          EXPECT_EQ(std::ssize(bytes), section.bytes);
          seen.push_back(section.name);
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(seen.size(), sections.size() - first);
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], sections[first + i].name);
  }
}

TEST(StateImageTest, PositionZeroTakesNoState) {
  const auto model = TinyModel();
  const std::vector<int32_t> pending{2};
  const Fed blank = FeedTokens(*model, 0);
  const Bytes bytes = Image(*model, {nullptr, pending, {}});
  EXPECT_EQ(bytes, Image(*model, {blank.state.get(), pending, {}}));
  EXPECT_LT(bytes.size(), 600U);
  const Fed other = FeedTokens(*model, 9);
  ASSERT_TRUE(ReadAll(bytes, *model, other.state.get()).ok());
  EXPECT_EQ(other.state->position(), 0);
}

TEST(StateImageTest, RefusesOtherModels) {
  const auto model = TinyModel();
  const Bytes bytes = ImageAfter(*model, 9);
  const auto refused = [&](const std::unique_ptr<Model>& other, const char* field) {
    EXPECT_THAT(Problem(Read(bytes, *other), absl::StatusCode::kFailedPrecondition),
                HasSubstr(field));
  };
  refused(TinyModel(2), "another model (family \"transformer_vq\"): fingerprint is \"");
  refused(TinyModel(1, DType::kBFloat16), "dtype is \"float32\", the model's is \"bfloat16\"");
  refused(TinyModel(1, DType::kFloat32, DType::kBFloat16), "state_dtype is \"float32\"");
  const Bytes chunk = Forged(bytes, "\"prefill_chunk\":256", "\"prefill_chunk\":128");
  EXPECT_THAT(Problem(Read(chunk, *model), absl::StatusCode::kFailedPrecondition),
              HasSubstr("prefill_chunk is 128, the model's is 256"));
}

TEST(StateImageTest, RefusesOtherFormats) {
  const auto model = TinyModel();
  const Bytes bytes = ImageAfter(*model, 9);
  Bytes later = bytes;
  later[8] = std::byte{3};
  EXPECT_THAT(Problem(Read(later, *model), absl::StatusCode::kFailedPrecondition),
              HasSubstr("has format version 3, this server reads versions up to 2"));
  Bytes never = bytes;
  never[8] = std::byte{0};
  EXPECT_THAT(Problem(Read(never, *model)), HasSubstr("format version 0"));
  Bytes swapped = bytes;
  std::reverse(swapped.begin() + 12, swapped.begin() + 16);
  EXPECT_THAT(Problem(Read(swapped, *model), absl::StatusCode::kFailedPrecondition),
              HasSubstr("big-endian"));
  Bytes foreign = bytes;
  foreign[0] = std::byte{'X'};
  EXPECT_THAT(Problem(Read(foreign, *model)), HasSubstr("must begin with \"TVQSTATE\""));
}

TEST(StateImageTest, SeesEveryTruncation) {
  const auto model = TinyModel();
  const Bytes bytes = ImageAfter(*model, 9);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_THAT(Problem(Read(cut, *model)), HasSubstr("ends at byte ")) << size;
    ASSERT_THAT(Problem(CheckAll(cut, *model)), HasSubstr("ends at byte ")) << size;
  }
}

TEST(StateImageTest, SeesEveryFlippedBit) {
  const auto model = TinyModel();
  Bytes bytes = ImageAfter(*model, 9);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::byte flip{static_cast<unsigned char>(1U << (i % 8))};
    bytes[i] ^= flip;
    const absl::Status status = Read(bytes, *model);
    // A version can look like one to come.
    ASSERT_TRUE(absl::IsInvalidArgument(status) || (i < 16 && absl::IsFailedPrecondition(status)))
        << "byte " << i << ": " << status;
    EXPECT_EQ(CheckAll(bytes, *model), status);
    bytes[i] ^= flip;
  }
  EXPECT_TRUE(Read(bytes, *model).ok());
  EXPECT_TRUE(CheckAll(bytes, *model).ok());
}

// Sections of one size, each with its own right checksum, but not in their places.
TEST(StateImageTest, SeesSectionsOfAnotherImageOrPlace) {
  const auto model = TinyModel();
  const Bytes one = ImageAfter(*model, 9), other = ImageAfter(*model, 10);
  ASSERT_EQ(one.size() + 1, other.size());                 // position 10 has a digit more
  constexpr std::ptrdiff_t kTail = 8 + 8 + 2 * 5 * 5 * 4;  // end mark; checksum; win_value
  Bytes mixed = one;
  std::copy(other.end() - kTail, other.end(), mixed.end() - kTail);
  EXPECT_THAT(Problem(Read(mixed, *model)), HasSubstr("layers.1.win_value is damaged"));
}

TEST(StateImageTest, ChecksTheTableBeforeItReadsASection) {
  const auto model = TinyModel();
  const Bytes bytes = ImageAfter(*model, 9);
  const auto problem = [&](std::string_view from, std::string_view to) {
    return Problem(Read(Forged(bytes, from, to), *model));
  };
  EXPECT_THAT(problem("layers.0.acc_sum", "layers.0.acc_sun"),
              HasSubstr("section 2 is \"layers.0.acc_sun\" of 120 bytes, 4 an element, shape "
                        "[2,3,5], must be \"layers.0.acc_sum\" of 120 bytes, 4 an element, shape "
                        "[2,3,5]"));
  EXPECT_THAT(problem("\"shape\":[2,3,5]", "\"shape\":[3,2,5]"),
              HasSubstr("shape [3,2,5], must be \"layers.0.acc_sum\" of 120 bytes, 4 an element, "
                        "shape [2,3,5]"));
  EXPECT_THAT(problem("\"shape\":[2,3,5]", "\"shape\":[2,3.5]"), HasSubstr("array of integers"));
  EXPECT_THAT(problem("\"shape\":[2,3,5]", "\"shapes\":[2,35]"), HasSubstr("\"shape\" is missing"));
  EXPECT_THAT(problem("\"position\":9,", "\"position\":3,"),
              HasSubstr("layers.0.acc_count[0] is 2, must be 0 to 0"));
  EXPECT_THAT(problem("\"position\":9,", "\"position\":0,"), HasSubstr("at position 0"));
  EXPECT_THAT(problem("\"bytes\":44,", "\"bytes\":40,"), HasSubstr("section 1 is \"logits\""));
  EXPECT_THAT(problem("\"bytes\":0,", "\"bytes\":8,"),
              HasSubstr("section 0 is \"pending\" of 8 bytes"));
  EXPECT_THAT(problem("\"vocab_size\":11", "\"vocab_size\":12"), HasSubstr("vocab_size"));
  EXPECT_THAT(problem("\"element_bytes\":8", "\"element_bytes\":0"), HasSubstr("element_bytes"));
}

TEST(StateImageTest, ASizeFromOutsideTakesNoMemory) {
  const auto model = TinyModel();
  const std::vector<int32_t> pending(1'000'000);
  Bytes bytes = Image(*model, {nullptr, pending, {}});
  bytes.resize(1000);
  EXPECT_THAT(Problem(Read(bytes, *model)),
              HasSubstr("section 0 is \"pending\" of 4000000 bytes, 4 an element, shape "
                        "[1000000], must be \"pending\" of 4 bytes"));
}

TEST(StateImageTest, RefusesContentThatNoStateHas) {
  const auto model = TinyModel();
  const Fed fed = FeedTokens(*model, 9);
  std::vector<float> logits = fed.logits;
  logits[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Problem(Read(Image(*model, {fed.state.get(), {}, logits}), *model)),
              HasSubstr("logits[4] is nan, must be finite"));
  const std::vector<int32_t> pending{11};
  EXPECT_THAT(Problem(Read(Image(*model, {fed.state.get(), pending, {}}), *model)),
              HasSubstr("pending[0] is 11, must be 0 to 10"));
  const std::vector<int32_t> two{1, 2};
  EXPECT_THAT(Problem(Read(Image(*model, {fed.state.get(), two, {}}), *model)),
              HasSubstr("section 0 is \"pending\" of 8 bytes"));
  const std::vector<int32_t> one{1};
  EXPECT_THAT(Problem(Read(Image(*model, {fed.state.get(), one, fed.logits}), *model)),
              HasSubstr("section 1 is \"logits\" of 44 bytes"));
  EXPECT_THAT(Problem(Read(Image(*model, {fed.state.get(), {}, {}}), *model)),
              HasSubstr("section 1 is \"logits\" of 0 bytes"));
}

// A whole image with right checksums, of a state that is none: another reader than the state's own
// cannot know.
TEST(StateImageTest, SaysWhatTheModelRefuses) {
  const auto model = TinyModel();
  class Bent : public State {
   public:
    explicit Bent(const State& state) : state_(state) {}
    int64_t position() const override { return state_.position(); }
    int64_t bytes() const override { return state_.bytes(); }
    absl::Status CopyFrom(const State&) override { return absl::OkStatus(); }
    absl::Status Reset() override { return absl::OkStatus(); }
    std::vector<SectionInfo> Sections() const override { return state_.Sections(); }
    absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override {
      return state_.VisitSectionsFrom(
          first, [&](const SectionInfo& section, std::span<const std::byte> bytes) {
            Bytes bent(bytes.begin(), bytes.end());
            if (section.name == "layers.1.win_code") bent[0] = std::byte{99};
            // In pieces, as a state may visit.
            absl::Status s = visit(section, std::span(bent).first(bent.size() / 2));
            return s.ok() ? visit(section, std::span(bent).subspan(bent.size() / 2)) : s;
          });
    }
    absl::Status Load(int64_t, const SectionReader&) override { return absl::OkStatus(); }

   private:
    const State& state_;
  };
  const Fed fed = FeedTokens(*model, 9);
  const Bent bent(*fed.state);
  EXPECT_EQ(Problem(Read(Image(*model, {&bent, {}, fed.logits}), *model)),
            "state image: layers.1.win_code[0] is 99, must be 0 to 2");
}

TEST(StateImageTest, PassesOnTheSourcesOwnTrouble) {
  class Broken : public ByteSource {
    absl::Status Read(std::span<std::byte>) override {
      return absl::UnavailableError("v7.snap: input/output error");
    }
  };
  Broken source;
  const auto model = TinyModel();
  const absl::Status status = StateImageReader::Open(&source, model->info()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("v7.snap"));
}

}  // namespace
}  // namespace tvq
