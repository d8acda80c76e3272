#ifndef TVQ_CLIENT_CLI_LINE_THINKING_H_
#define TVQ_CLIENT_CLI_LINE_THINKING_H_

#include <string>
#include <string_view>

namespace tvq::cli {

// Dims, in a terminal, what an answer has between <think> at its beginning and </think>.
class DimmedThinking {
 public:
  // What to print for the next piece of the answer. The beginning of what may become <think> waits
  // for the rest.
  std::string Show(std::string_view piece);
  // What to print at the answer's end.
  std::string End();

 private:
  enum class Place { kBeginning, kThinking, kBehind };

  Place place_ = Place::kBeginning;
  std::string held_;  // the beginning so far; in the thinking: the end of what was shown
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_LINE_THINKING_H_
