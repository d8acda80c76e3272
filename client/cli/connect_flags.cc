#include "client/cli/connect_flags.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/io/input.h"

namespace tvq::cli {
namespace {

constexpr char kConnectionGroup[] = "Connection";

}  // namespace

void ConnectFlags::AddTo(flags::Command app) {
  const auto add = [&](const char* name, std::string& value, const char* help) {
    return app.Add(name, value, help).Group(kConnectionGroup);
  };
  add("--server", options_.address, "Address of the server")
      .Environment("TVQ_SERVER")
      .TypeName("HOST:PORT")
      .ShowDefault();
  add("--api-key", api_key_, "Key for a server that wants one; @FILE: its first line")
      .Environment("TVQ_API_KEY")
      .TypeName("KEY|@FILE");
  app.AddFlag("--tls", options_.tls, "Use TLS; the files below ask for it too")
      .Environment("TVQ_TLS")
      .Group(kConnectionGroup);
  add("--ssl-ca-certs", options_.ca_file,
      "PEM file of who signed the server's certificate; else the system's authorities")
      .Environment("TVQ_SSL_CA_CERTS")
      .TypeName("FILE");
  add("--ssl-certfile", options_.cert_file, "PEM file of the client's own certificate")
      .Environment("TVQ_SSL_CERTFILE")
      .TypeName("FILE");
  add("--ssl-keyfile", options_.key_file, "PEM file of its key")
      .Environment("TVQ_SSL_KEYFILE")
      .TypeName("FILE");
}

absl::StatusOr<client::ConnectOptions> ConnectFlags::Options() const {
  client::ConnectOptions options = options_;
  options.api_key = api_key_;
  if (!api_key_.starts_with('@')) return options;
  const std::string path = api_key_.substr(1);
  if (const absl::Status status = ReadInput(path, &options.api_key, "key"); !status.ok()) {
    return status;
  }
  options.api_key.resize(std::min(options.api_key.find('\n'), options.api_key.size()));
  absl::StripAsciiWhitespace(&options.api_key);
  if (options.api_key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--api-key: the first line of ", path, " must be the key"));
  }
  return options;
}

}  // namespace tvq::cli
