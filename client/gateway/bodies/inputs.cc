#include "client/gateway/bodies/inputs.h"

namespace tvq::gateway {

bool ReadIds(const Json& list, v1::TokenIds* ids) {
  ids->mutable_ids()->Reserve(static_cast<int>(list.size()));
  for (const Json& item : list) {
    const std::optional<int32_t> id = AsInt32(item);
    if (!id) return false;
    ids->add_ids(*id);
  }
  return true;
}

}  // namespace tvq::gateway
