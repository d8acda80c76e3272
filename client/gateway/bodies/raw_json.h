// Parts of a JSON text as they stand in it: what is passed on keeps its order and its numbers.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_RAW_JSON_H_
#define TVQ_CLIENT_GATEWAY_BODIES_RAW_JSON_H_

#include <span>
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
// What stands in the member of this name, in that the member of the next, and so on; of a name that
// is given twice the last counts. All must be there.
std::string_view ValueAt(std::string_view object, std::span<const std::string_view> names);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_RAW_JSON_H_
