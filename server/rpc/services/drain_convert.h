#ifndef TVQ_SERVER_RPC_SERVICES_DRAIN_CONVERT_H_
#define TVQ_SERVER_RPC_SERVICES_DRAIN_CONVERT_H_

#include "absl/status/statusor.h"
#include "server/rpc/services/drain_order.h"
#include "tvq/v1/admin.pb.h"

namespace tvq {

// INVALID_ARGUMENT names the field.
absl::StatusOr<DrainOrder> ToDrainOrder(const v1::DrainRequest& message);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_DRAIN_CONVERT_H_
