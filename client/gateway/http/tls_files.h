// The gateway's certificate and key, in files that may change while it runs.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_TLS_FILES_H_
#define TVQ_CLIENT_GATEWAY_HTTP_TLS_FILES_H_

#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq::gateway {

namespace asio = boost::asio;

// Used by the loop's thread alone.
class TlsFiles {
 public:
  // Hears of files that changed: OK when they are in use, else why they are not.
  using Report = std::function<void(const absl::Status&)>;

  // NOT_FOUND or INVALID_ARGUMENT names the file: it cannot be read, is no PEM, or the key is
  // another certificate's.
  static absl::StatusOr<TlsFiles> Load(const std::string& certificate_file,
                                       const std::string& key_file, Report report);

  // For a new connection: what the files hold, looked at once a second. Files that cannot be used
  // leave the old ones in force, which is reported once for each problem.
  std::shared_ptr<asio::ssl::context> Current();

  // Reads the files now, whether or not they seem to have changed. What becomes of it is not
  // reported. On an error, as Load's, the old ones stay in force.
  absl::Status Reload();

 private:
  TlsFiles(std::string certificate_file, std::string key_file, Report report)
      : certificate_file_(std::move(certificate_file)),
        key_file_(std::move(key_file)),
        report_(std::move(report)) {}
  absl::Status Read();
  std::string Stamp() const;

  std::string certificate_file_;
  std::string key_file_;
  Report report_;
  std::shared_ptr<asio::ssl::context> context_;
  std::string stamp_;  // sizes and times of the files of context_
  std::string last_problem_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_TLS_FILES_H_
