#include "server/rpc/calls/call_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

using testing::HasSubstr;

constexpr MethodInfo kGenerate{"GenerationService/Generate", Permission::kGenerate};
constexpr MethodInfo kDrain{"AdminService/Drain", Permission::kAdmin};
constexpr MethodInfo kInfo{"ModelService/GetServerInfo", Permission::kAny};

// Of the keys "alpha" and "beta".
constexpr char kAna[] = "ana 8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8\n";
constexpr char kOps[] =
    "ops f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753 admin\n";

class CallGateTest : public testing::Test {
 protected:
  CallGateTest()
      : file_(std::filesystem::temp_directory_path() / absl::StrCat("tvq-keys-", getpid())) {}
  ~CallGateTest() override { std::filesystem::remove(file_); }

  void Write(const std::string& text) { std::ofstream(file_) << text; }

  std::unique_ptr<CallGate> Gate() {
    auto gate = CallGate::Create({.api_key_file = file_.string()});
    EXPECT_TRUE(gate.ok()) << gate.status();
    return *std::move(gate);
  }

  static absl::StatusCode Authorize(CallGate& gate, const MethodInfo& method,
                                    std::optional<std::string_view> authorization) {
    Caller caller;
    return gate.Authorize(method, authorization, &caller).code();
  }

  const std::filesystem::path file_;
};

TEST_F(CallGateTest, WithoutAFileEverybodyMayCall) {
  auto gate = CallGate::Create({});
  ASSERT_TRUE(gate.ok());
  EXPECT_FALSE((*gate)->has_keys());
  Caller caller;
  EXPECT_TRUE((*gate)->Authorize(kGenerate, "Bearer whatever", &caller).ok());
  EXPECT_TRUE((*gate)->Authorize(kGenerate, std::nullopt, &caller).ok());
  EXPECT_EQ(caller.owner, "");
  EXPECT_FALSE(caller.admin);
  EXPECT_EQ((*gate)->ReadKeys().value(), nullptr);
}

TEST_F(CallGateTest, TellsWhoseTheCallIs) {
  Write(absl::StrCat(kAna, kOps));
  const auto gate = Gate();
  Caller caller;
  ASSERT_TRUE(gate->Authorize(kGenerate, "Bearer alpha", &caller).ok());
  EXPECT_EQ(caller.owner, "ana");
  EXPECT_FALSE(caller.admin);
  ASSERT_TRUE(gate->Authorize(kDrain, "bearer beta", &caller).ok());
  EXPECT_EQ(caller.owner, "ops");
  EXPECT_TRUE(caller.admin);
}

TEST_F(CallGateTest, OtherKeysLeaveNobodyAKeyHolder) {
  Write(kAna);
  const auto gate = Gate();
  const auto standing_after = [&](const std::string& text) {
    Write(text);
    gate->UseKeys(gate->ReadKeys().value());
    return gate->key_holders()->StandingOf({.name = "a"});
  };
  gate->key_holders()->Add("a");
  EXPECT_EQ(standing_after(kAna), Standing::kKeyHolder) << "the certificates were renewed, perhaps";
  EXPECT_EQ(standing_after(kOps), Standing::kUnknown);
}

TEST_F(CallGateTest, RefusesWhoHasNoKey) {
  Write(kAna);
  const auto gate = Gate();
  for (const std::string_view wrong :
       {"", "alpha", "Bearer", "Bearer ", "Bearer  alpha", "Bearer beta", "Basic alpha"}) {
    EXPECT_EQ(Authorize(*gate, kInfo, wrong), absl::StatusCode::kUnauthenticated) << wrong;
  }
  EXPECT_EQ(Authorize(*gate, kInfo, std::nullopt), absl::StatusCode::kUnauthenticated);
}

TEST_F(CallGateTest, RefusesAKeyWithoutThePermission) {
  Write(absl::StrCat(kAna, kOps));
  const auto gate = Gate();
  EXPECT_EQ(Authorize(*gate, kDrain, "Bearer alpha"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Authorize(*gate, kGenerate, "Bearer beta"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer alpha"), absl::StatusCode::kOk);
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer beta"), absl::StatusCode::kOk);
  Caller caller;
  const absl::Status status = gate->Authorize(kDrain, "Bearer alpha", &caller);
  EXPECT_THAT(std::string(status.message()), HasSubstr("admin"));
  EXPECT_EQ(caller.owner, "");
}

TEST_F(CallGateTest, UseKeysChangesTheKeys) {
  Write(kAna);
  const auto gate = Gate();
  Write(absl::StrCat(kOps, "# ana has left\n"));
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer alpha"), absl::StatusCode::kOk);
  const auto keys = gate->ReadKeys();
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer alpha"), absl::StatusCode::kOk);
  gate->UseKeys(*keys);
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer alpha"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer beta"), absl::StatusCode::kOk);
}

TEST_F(CallGateTest, ADamagedFileIsNotUsed) {
  Write(kAna);
  const auto gate = Gate();
  Write("ana no-hash\n");
  EXPECT_EQ(gate->ReadKeys().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Authorize(*gate, kInfo, "Bearer alpha"), absl::StatusCode::kOk);
}

TEST_F(CallGateTest, AMissingFileIsAnErrorAtStart) {
  EXPECT_EQ(CallGate::Create({.api_key_file = file_.string()}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tvq
