#include "kernels/numbers/parse_dtype.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(ParseDTypeTest, KnowsEveryName) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8, DType::kInt4}) {
    EXPECT_EQ(ParseDType(Name(dtype)).value(), dtype);
  }
}

TEST(ParseDTypeTest, RefusesOthersNamingWhatThereIs) {
  for (const char* name : {"", "float16", "Int8", "int4 "}) {
    const absl::Status status = ParseDType(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(status.message(),
              "dtype is \"" + std::string(name) + "\", must be float32, bfloat16, int8 or int4");
  }
}

}  // namespace
}  // namespace tvq
