#include "client/cli/connect_flags.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/io/input.h"

namespace tvq::cli {
namespace {

constexpr char kGroup[] = "Connection";

}  // namespace

void ConnectFlags::AddTo(CLI::App& app) {
  const auto add = [&](const char* name, std::string& value, const char* help) {
    return app.add_option(name, value, help)->group(kGroup);
  };
  add("--server", options_.address, "Address of the server")
      ->envname("TVQ_SERVER")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  add("--api-key", api_key_, "Key for a server that wants one; @FILE: its first line")
      ->envname("TVQ_API_KEY")
      ->type_name("KEY|@FILE");
  app.add_flag("--tls", options_.tls, "Use TLS; the files below ask for it too")
      ->envname("TVQ_TLS")
      ->group(kGroup);
  add("--ssl-ca-certs", options_.ca_file,
      "PEM file of who signed the server's certificate; else the system's authorities")
      ->envname("TVQ_SSL_CA_CERTS")
      ->type_name("FILE");
  add("--ssl-certfile", options_.cert_file, "PEM file of the client's own certificate")
      ->envname("TVQ_SSL_CERTFILE")
      ->type_name("FILE");
  add("--ssl-keyfile", options_.key_file, "PEM file of its key")
      ->envname("TVQ_SSL_KEYFILE")
      ->type_name("FILE");
}

absl::StatusOr<client::ConnectOptions> ConnectFlags::Options() const {
  client::ConnectOptions options = options_;
  options.api_key = api_key_;
  if (!api_key_.starts_with('@')) return options;
  const std::string path = api_key_.substr(1);
  if (const absl::Status status = ReadInput(path, &options.api_key); !status.ok()) return status;
  options.api_key.resize(std::min(options.api_key.find('\n'), options.api_key.size()));
  absl::StripAsciiWhitespace(&options.api_key);
  if (options.api_key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--api-key: the first line of ", path, " must be the key"));
  }
  return options;
}

}  // namespace tvq::cli
