#include "server/rpc/hand_over.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(HandOverTest, TellsItsKeyToNoOtherMachineWithoutTls) {
  for (const char* address : {"127.0.0.1:50051", "127.1.2.3:1", "[::1]:50051", "localhost:50051"}) {
    EXPECT_TRUE(CheckPeer({.address = address, .key = "key"}).ok()) << address;
  }
  for (const char* address :
       {"10.0.0.1:50051", "127.0.0.1.example:50051", "localhost.example:1", "[2001:db8::1]:50051",
        "dns:///127.0.0.1:50051", "tvq", "", "0.0.0.0:50051"}) {
    EXPECT_EQ(CheckPeer({.address = address, .key = "key"}).code(),
              absl::StatusCode::kFailedPrecondition)
        << address;
    EXPECT_TRUE(CheckPeer({.address = address}).ok()) << "no key to tell";
    EXPECT_TRUE(
        CheckPeer({.address = address, .key = "key", .tls = {.certificate_file = "f"}}).ok());
  }
}

}  // namespace
}  // namespace tvq
