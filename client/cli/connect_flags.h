#ifndef TVQ_CLIENT_CLI_CONNECT_FLAGS_H_
#define TVQ_CLIENT_CLI_CONNECT_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/flags.h"
#include "client/cpp/connect.h"

namespace tvq::cli {

// client::ConnectOptions as flags and environment.
class ConnectFlags {
 public:
  void AddTo(flags::Command app);
  // Reads the file of --api-key @FILE; NOT_FOUND if that cannot be read.
  absl::StatusOr<client::ConnectOptions> Options() const;
  const client::ConnectOptions& OptionsWithoutKey() const { return options_; }
  bool has_key() const { return !api_key_.empty(); }

 private:
  client::ConnectOptions options_ = {.address = "127.0.0.1:50051"};
  std::string api_key_;  // the key, or @ and the file that holds it
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_CONNECT_FLAGS_H_
