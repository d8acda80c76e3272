#include "kernels/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tvq {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(MakeDeviceTest, NamesWhatIsAvailable) {
  const absl::Status status = MakeDevice("tpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("available: cpu, cuda, reference"));
}

// Where there is no GPU to make a device of, the message says which of its needs is not met.
TEST(MakeDeviceTest, CudaSaysWhatIsMissing) {
  const auto device = MakeDevice("cuda");
  if (device.ok()) {
    EXPECT_FALSE((*device)->host_memory());
    EXPECT_THAT((*device)->Describe(), HasSubstr("cuda"));
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(device.status().message()),
      AnyOf(HasSubstr("no CUDA backend; build with"), HasSubstr("no NVIDIA driver"),
            HasSubstr("the driver knows CUDA"), HasSubstr("no GPU"), HasSubstr("no code for")));
  EXPECT_TRUE(MakeDevice("cpu").ok());
}

}  // namespace
}  // namespace tvq
