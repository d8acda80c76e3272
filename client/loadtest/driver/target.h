#ifndef TVQ_CLIENT_LOADTEST_DRIVER_TARGET_H_
#define TVQ_CLIENT_LOADTEST_DRIVER_TARGET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/loadtest/driver/transport.h"

namespace tvq::loadtest {

struct ModelInfo {
  std::string name;
  int64_t vocab_size = 0;
  std::vector<int32_t> special_ids;
  int64_t max_prompt_tokens = 0;  // 0: no limit
  std::string server;             // version and device, for people
};

// What all requests of a run have in common.
struct RequestSettings {
  std::string model;
  bool ignore_eos = true;
  std::optional<float> temperature;
  double session_ttl = 0;  // seconds
};

// What is put under load. The first two wait for the answer; errors name the address.
class Target {
 public:
  virtual ~Target() = default;
  // An empty name stands for the server's first model.
  virtual absl::StatusOr<ModelInfo> GetModel(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model,
                                                        const std::string& text) = 0;
  virtual std::unique_ptr<Transport> Open(const RequestSettings& settings) = 0;
  // For people: "gRPC 127.0.0.1:50051".
  virtual std::string Description() const = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_DRIVER_TARGET_H_
