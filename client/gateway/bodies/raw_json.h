// Parts of a JSON text as they stand in it: what is passed on keeps its order and its numbers.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_RAW_JSON_H_
#define TVQ_CLIENT_GATEWAY_BODIES_RAW_JSON_H_

#include <string>
#include <string_view>
#include <vector>

namespace tvq::gateway {

struct RawMember {
  std::string name;
  std::string_view value;
};

// The members of an object and the items of a list, which must be valid JSON and stay where they
// are.
std::vector<RawMember> MembersOf(std::string_view object);
std::vector<std::string_view> ItemsOf(std::string_view list);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_RAW_JSON_H_
