// What an owner may have of the engine. Plain numbers.
#ifndef TVQ_SERVER_ENGINE_REQUEST_OWNER_LIMITS_H_
#define TVQ_SERVER_ENGINE_REQUEST_OWNER_LIMITS_H_

#include <cstdint>

namespace tvq {

struct OwnerLimits {
  static constexpr int32_t kMaxWeight = 1'000'000;

  int32_t weight = 1;                 // share of a step's rows and of prompts; 1 to kMaxWeight
  int64_t max_num_seqs = 0;           // rows of one step; 0: no limit
  int64_t max_num_admitted_seqs = 0;  // sequences admitted at once; 0: no limit

  // Whether the owner may have so many sequences admitted.
  bool Admit(int64_t sequences) const {
    return max_num_admitted_seqs == 0 || sequences <= max_num_admitted_seqs;
  }
  bool operator==(const OwnerLimits&) const = default;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_OWNER_LIMITS_H_
