// Transport security from files that may change while the server runs.
#ifndef TVQ_SERVER_RPC_ACCESS_TLS_H_
#define TVQ_SERVER_RPC_ACCESS_TLS_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/read_file.h"
#include "base/ticker.h"
#include "server/rpc/wire/memory_file.h"

namespace tvq {

// Files in PEM.
struct TlsOptions {
  std::string certificate_file;  // the server's chain, its own certificate first
  std::string key_file;          // its private key, not encrypted
  std::string ca_file;           // whose clients are accepted; empty: all, also without certificate

  bool enabled() const { return !certificate_file.empty(); }
};

// What the files hold. `key` belongs to `certificates`.
struct TlsTexts {
  std::string certificates;
  std::string key;
  std::string ca;

  bool operator==(const TlsTexts&) const = default;
};

// NOT_FOUND or INVALID_ARGUMENT names the file: it cannot be read, is no PEM, or the key is another
// certificate's.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsOptions& options, Pipes pipes);

// gRPC's own watcher takes certificates as it finds them, a new certificate beside an old key too,
// and then refuses every client. So it is shown checked copies in memory, exchanged in one step.
//
// The files are looked at every second; what is wrong with them is logged and the old ones stay.
class Tls {
 public:
  // Errors of ReadTlsFiles.
  static absl::StatusOr<std::unique_ptr<Tls>> Create(const TlsOptions& options);

  // For the server's port. New connections use what the files hold within two seconds.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

  // Looks at the files now. True if they have changed since the last Reload or Create. Errors of
  // ReadTlsFiles. Any thread.
  absl::StatusOr<bool> Reload();

 private:
  explicit Tls(const TlsOptions& options) : options_(options) {}

  // True if the files had changed.
  absl::StatusOr<bool> Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Show(const TlsTexts& texts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look();

  const TlsOptions options_;
  Mutex mutex_;
  TlsTexts shown_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // since the last Reload
  MemoryFile identity_ ABSL_GUARDED_BY(mutex_);   // the key, then the chain: one file, one exchange
  MemoryFile ca_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
  std::string last_problem_;       // found by the watcher
  std::optional<Ticker> watcher_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_TLS_H_
