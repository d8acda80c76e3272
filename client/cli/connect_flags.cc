#include "client/cli/connect_flags.h"

#include <utility>

#include "client/cpp/connect.h"
#include "client/cpp/key_text.h"

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
      .Check(client::WrongAddress)
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
  const flags::Option certificate =
      add("--ssl-certfile", options_.cert_file, "PEM file of the client's own certificate");
  certificate.Environment("TVQ_SSL_CERTFILE").TypeName("FILE");
  const flags::Option key = add("--ssl-keyfile", options_.key_file, "PEM file of its key");
  key.Environment("TVQ_SSL_KEYFILE").TypeName("FILE").Needs(certificate);
  certificate.Needs(key);
}

absl::StatusOr<client::ConnectOptions> ConnectFlags::Options() const {
  auto key = client::ReadKeyText(api_key_);
  if (!key.ok()) return key.status();
  client::ConnectOptions options = options_;
  options.api_key = *std::move(key);
  return options;
}

}  // namespace tvq::cli
