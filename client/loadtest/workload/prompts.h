#ifndef TVQ_CLIENT_LOADTEST_WORKLOAD_PROMPTS_H_
#define TVQ_CLIENT_LOADTEST_WORKLOAD_PROMPTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/loadtest/workload/length.h"
#include "client/loadtest/workload/random.h"

namespace tvq::loadtest {

// One of the two is set.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};

// Where prompts come from.
class Prompts {
 public:
  virtual ~Prompts() = default;
  virtual Prompt Draw(Random& random) const = 0;

  // Ids drawn from `ids`, not empty, each as likely: exact lengths, and no two prompts begin alike,
  // so that a cache of prefixes does not help.
  static std::unique_ptr<Prompts> RandomIds(std::vector<int32_t> ids, LengthDistribution length);
  // Pieces of a text's tokens, from any place in it; `ids` has at least length.max() of them.
  static std::unique_ptr<Prompts> Pieces(std::vector<int32_t> ids, LengthDistribution length);
  // One of the texts, not empty, each as likely.
  static std::unique_ptr<Prompts> Texts(std::vector<std::string> texts);
};

// The lines of a file that are not blank, without their ends.
std::vector<std::string> Lines(const std::string& content);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WORKLOAD_PROMPTS_H_
