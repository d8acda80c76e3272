#ifndef TVQ_SERVER_RPC_SERVICES_GENERATION_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_GENERATION_SERVICE_H_

#include "server/rpc/services/tvq_service.h"

namespace tvq {

class GenerationService final : public TvqService {
 public:
  explicit GenerationService(const CallContext& context);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_GENERATION_SERVICE_H_
