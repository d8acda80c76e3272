#ifndef TVQ_SERVER_RPC_CALLS_CREDENTIALS_H_
#define TVQ_SERVER_RPC_CALLS_CREDENTIALS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/rpc/access/tls.h"
#include "server/rpc/calls/call_gate.h"

namespace tvq {

// The files of keys and certificates, which may be read again while the server runs. Any thread.
class Credentials {
 public:
  struct Reloaded {
    int64_t keys = 0;           // now in force; 0: the server has no file of them
    bool certificates = false;  // others are in use than after the last Reload, or at the start
  };

  // `tls`: null without TLS. Both must outlive it.
  Credentials(CallGate* gate, Tls* tls) : gate_(gate), tls_(tls) {}

  // False: the server has none of these files.
  bool has_files() const { return gate_->has_keys() || tls_ != nullptr; }

  // On an error of ApiKeys::Read or ReadTlsFiles, which names the file, the old ones stay in force.
  absl::StatusOr<Reloaded> Reload();

 private:
  CallGate* const gate_;
  Tls* const tls_;
  Mutex mutex_;  // the last to read is the last to use what it read
};

// For people: "3 keys, new certificates".
std::string Describe(const Credentials::Reloaded& reloaded);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_CREDENTIALS_H_
