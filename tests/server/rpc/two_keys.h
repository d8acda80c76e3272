// A file of two keys, for what one caller leaves to another.
#ifndef TVQ_TESTS_SERVER_RPC_TWO_KEYS_H_
#define TVQ_TESTS_SERVER_RPC_TWO_KEYS_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/call_gate.h"

namespace tvq {

// Keys of the owners "ana" and "ben".
inline constexpr char kAnasKey[] = "alpha";
inline constexpr char kBensKey[] = "beta";

inline void UseKey(const char* key, grpc::ClientContext* context) {
  context->AddMetadata("authorization", absl::StrCat("Bearer ", key));
}

class TwoKeys {
 public:
  TwoKeys()
      : file_(std::filesystem::temp_directory_path() / absl::StrCat("tvq-two-keys-", getpid())) {
    std::ofstream(file_)
        << "ana 8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8\n"
           "ben f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753\n";
  }
  ~TwoKeys() { std::filesystem::remove(file_); }
  TwoKeys(const TwoKeys&) = delete;
  TwoKeys& operator=(const TwoKeys&) = delete;

  CallGateOptions gate() const { return {.api_key_file = file_.string()}; }

 private:
  const std::filesystem::path file_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_TWO_KEYS_H_
