#ifndef TVQ_CLIENT_CLI_IO_TEXT_INPUT_H_
#define TVQ_CLIENT_CLI_IO_TEXT_INPUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/flags.h"
#include "client/cli/io/input.h"

namespace tvq::cli {

// What a command is given to read: --text, --file, --ids, or without any of them stdin.
class TextInput {
 public:
  // This outlives the command.
  void AddTo(flags::Command command) {
    const flags::Option text = command.Add("--text", text_, "Text; - or nothing: from stdin");
    const flags::Option file = command.Add("--file", file_, "File that holds the text");
    const flags::Option ids = command.Add("--ids", ids_, "Token ids, such as 5,9,2").SplitAt(',');
    file.TypeName("FILE").NotEmpty("a file's name");
    text.Excludes(file).Excludes(ids);
    file.Excludes(ids);
    command.InsteadOfArguments("a text is given with --text, a file with --file");
  }

  // Sets `text` or `token_ids` of a request. An error names what cannot be read.
  template <typename Request>
  absl::Status Fill(Request* request) const {
    if (!ids_.empty()) {
      request->mutable_token_ids()->mutable_ids()->Add(ids_.begin(), ids_.end());
      return absl::OkStatus();
    }
    if (text_ && *text_ != "-") {
      request->set_text(*text_);
      return absl::OkStatus();
    }
    return ReadInput(file_.empty() ? "-" : file_, request->mutable_text());
  }

 private:
  std::optional<std::string> text_;
  std::string file_;
  std::vector<int32_t> ids_;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_TEXT_INPUT_H_
