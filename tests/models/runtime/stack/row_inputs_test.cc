#include "models/runtime/stack/row_inputs.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/models/host_memory.h"

namespace tvq {
namespace {

TEST(RowInputsTest, ViewsKeepTheNumbersBehindThemAligned) {
  HostMemory memory;
  EXPECT_TRUE(RowInputs::Create(memory, 3, std::vector<size_t>{8, 0, 24}).ok());
  const absl::Status status = RowInputs::Create(memory, 3, std::vector<size_t>{8, 12}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "layer 1 has views of 12 bytes, must be a multiple of 8");
}

}  // namespace
}  // namespace tvq
