#ifndef TVQ_CLIENT_CPP_ADMIN_H_
#define TVQ_CLIENT_CPP_ADMIN_H_

#include "absl/status/statusor.h"
#include "client/cpp/call.h"
#include "tvq/v1/admin.pb.h"

namespace tvq::client {

// Operating a server. PERMISSION_DENIED unless the key may; UNIMPLEMENTED by a server without keys.
// Thread-safe.
class Admin {
 public:
  virtual ~Admin() = default;

  // The server finishes what runs and stops; it accepts nothing new.
  virtual absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request,
                                                  const CallOptions& options = {}) = 0;
  // Keys and certificates are read again; on an error the old ones stay in force.
  virtual absl::StatusOr<v1::ReloadCredentialsResponse> ReloadCredentials(
      const CallOptions& options = {}) = 0;
};

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_ADMIN_H_
