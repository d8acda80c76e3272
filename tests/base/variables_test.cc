#include "base/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Complaints(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return UnknownVariables(environment.data());
}

TEST(VariablesTest, WhatNobodyReadsIsNamedWithWhatIsLikeIt) {
  EXPECT_THAT(
      Complaints({"PATH=/bin", "TVQ_MAX_NUM_SEQ=4", "TVQ_PORT=1", "TVQ_FROB=", "TVQ_MDOEL"}),
      ElementsAre("TVQ_FROB is set in the environment, and no program of tvq reads it",
                  "TVQ_MAX_NUM_SEQ is set in the environment, and no program of tvq reads "
                  "it; did you mean TVQ_MAX_NUM_SEQS?",
                  "TVQ_MDOEL is set in the environment, and no program of tvq reads it; did "
                  "you mean TVQ_MODEL?"));
}

TEST(VariablesTest, WhatKubernetesSetsForServicesIsLeftAlone) {
  EXPECT_THAT(
      Complaints({"TVQ_SERVICE_HOST=10.0.0.1", "TVQ_SERVICE_PORT=50051",
                  "TVQ_SERVICE_PORT_GRPC=50051", "TVQ_PORT=tcp://10.0.0.1:50051",
                  "TVQ_PORT_50051_TCP=tcp://10.0.0.1:50051", "TVQ_PORT_50051_TCP_PROTO=tcp",
                  "TVQ_PORT_50051_TCP_PORT=50051", "TVQ_PORT_50051_TCP_ADDR=10.0.0.1",
                  "TVQ_GATEWAY_SERVICE_HOST=10.0.0.2", "TVQ_GATEWAY_PORT=tcp://10.0.0.2:8000",
                  "TVQ_GATEWAY_PORT_8000_TCP_ADDR=10.0.0.2",
                  "TVQ_EXPORT_PORT_80_TCP_ADDR=10.0.0.3"}),
      IsEmpty());
  EXPECT_THAT(Complaints({"TVQ_GATEWAY_PORT=8000"}), testing::SizeIs(1));
}

}  // namespace
}  // namespace tvq
