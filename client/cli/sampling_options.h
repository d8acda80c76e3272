#ifndef TVQ_CLIENT_CLI_SAMPLING_OPTIONS_H_
#define TVQ_CLIENT_CLI_SAMPLING_OPTIONS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/flags.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::cli {

// The fields of SamplingParams as options, by their names and help texts in the proto. What is not
// given is not sent: the server's defaults hold, and its checks.
class SamplingOptions {
 public:
  // `samples`: how many there may be is an option, too.
  void AddTo(flags::Command command, bool samples = true);
  // Whether what was asked for would be shown.
  absl::Status CheckShown(bool as_json) const;
  void Fill(v1::SamplingParams* params) const;

 private:
  // What an option was given, in the member for its field's type.
  struct Given {
    const google::protobuf::FieldDescriptor* field;
    std::optional<float> number;
    std::optional<int32_t> integer;
    std::optional<uint64_t> bits;
    bool flag = false;
    std::vector<int32_t> ids;
    std::vector<std::string> texts;  // also of a map: ID=BIAS
  };
  static void Add(const flags::Command& command, Given& given);

  std::deque<Given> given_;  // options point into it
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_SAMPLING_OPTIONS_H_
