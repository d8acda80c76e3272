#include "client/cpp/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "tests/client/cpp/fake_server.h"

namespace tvq::client {
namespace {

using testing::HasSubstr;

constexpr char kMake[] = R"(
set -e
exec 2>openssl.log
new_key="openssl req -newkey rsa:2048 -nodes -days 2"
$new_key -x509 -subj /CN=signer -keyout ca.key -out ca.pem
$new_key -subj /CN=server -keyout key.pem -out request
echo subjectAltName=IP:127.0.0.1 >names
openssl x509 -req -days 2 -in request -CA ca.pem -CAkey ca.key -CAcreateserial \
  -extfile names -out cert.pem
$new_key -x509 -subj /CN=other -keyout other.key -out other.pem
)";

// Keys and certificates that the openssl command makes: a signer, and one that it signed for
// 127.0.0.1, which the tests' server and client both show.
class Certificates {
 public:
  Certificates() {
    std::string name = absl::StrCat(testing::TempDir(), "certificatesXXXXXX");
    directory_ = mkdtemp(name.data());
    const std::string make = absl::StrCat("cd ", directory_, kMake);
    if (std::system(make.c_str()) != 0) ADD_FAILURE() << Read("openssl.log");
  }
  ~Certificates() { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return absl::StrCat(directory_, "/", name); }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string directory_;
};

const Certificates& Files() {
  static const Certificates certificates;
  return certificates;
}

std::shared_ptr<grpc::ServerCredentials> ServerTls(bool wants_client_certificate) {
  grpc::SslServerCredentialsOptions options(
      wants_client_certificate ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                               : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = Files().Read("ca.pem");
  options.pem_key_cert_pairs.push_back({Files().Read("key.pem"), Files().Read("cert.pem")});
  return grpc::SslServerCredentials(options);
}

// Calls the server and returns how it went; `key` receives the header the server saw.
absl::Status Call(FakeServer& server, ConnectOptions options, std::string* key = nullptr) {
  server.sessions.list = [key](auto* context, const auto&, auto*) {
    if (key != nullptr) *key = Header(*context, "authorization");
    return grpc::Status::OK;
  };
  options.address = server.address();
  const auto client = Client::Connect(options);
  if (!client.ok()) return client.status();
  return (*client)->sessions().List({}).status();
}

TEST(ConnectTest, AnAddressThatIsNoneIsTold) {
  const absl::Status wrong = Client::Connect("two words").status();
  EXPECT_EQ(wrong, absl::InvalidArgumentError(
                       "\"two words\" is no address of a server, must be HOST:PORT"));
}

TEST(ConnectTest, KeyGoesWithUnaryCallsAndStreams) {
  FakeServer server;
  ConnectOptions options;
  std::string seen;
  EXPECT_TRUE(Call(server, options, &seen).ok());
  EXPECT_EQ(seen, "");
  options.api_key = "k1-Secret";
  EXPECT_TRUE(Call(server, options, &seen).ok());
  EXPECT_EQ(seen, "Bearer k1-Secret");

  server.generation.generate = [&](auto* context, const auto&, auto*) {
    seen = absl::StrCat("stream: ", Header(*context, "authorization"));
    return grpc::Status::OK;
  };
  options.address = server.address();
  const auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto stream = (*client)->Generate({});
  v1::GenerateResponse response;
  EXPECT_FALSE(stream->Next(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(seen, "stream: Bearer k1-Secret");
}

TEST(ConnectTest, KeyThatNoHeaderCanHoldIsRefused) {
  for (const char* key : {"two\nlines", "a space", "\xc3\xa4"}) {
    ConnectOptions options;
    options.address = "localhost:1";
    options.api_key = key;
    EXPECT_TRUE(absl::IsInvalidArgument(Client::Connect(options).status())) << key;
  }
}

TEST(ConnectTest, TrustsWhatTheAuthoritySigned) {
  FakeServer server(ServerTls(false));
  ConnectOptions options;
  options.ca_file = Files().Path("ca.pem");
  options.api_key = "k1-Secret";
  std::string seen;
  const absl::Status status = Call(server, options, &seen);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen, "Bearer k1-Secret");
}

TEST(ConnectTest, RefusesAServerThatSomeoneElseSigned) {
  FakeServer server(ServerTls(false));
  ConnectOptions options;
  options.ca_file = Files().Path("other.pem");
  EXPECT_TRUE(absl::IsUnavailable(Call(server, options)));
  options.ca_file.clear();
  options.tls = true;  // the system's authorities did not sign it either
  EXPECT_TRUE(absl::IsUnavailable(Call(server, options)));
}

TEST(ConnectTest, PlaintextDoesNotReachATlsServer) {
  FakeServer server(ServerTls(false));
  EXPECT_TRUE(absl::IsUnavailable(Call(server, {})));
}

TEST(ConnectTest, ShowsItsCertificateToAServerThatWantsOne) {
  FakeServer server(ServerTls(true));
  ConnectOptions options;
  options.ca_file = Files().Path("ca.pem");
  EXPECT_TRUE(absl::IsUnavailable(Call(server, options)));
  options.cert_file = Files().Path("cert.pem");
  options.key_file = Files().Path("key.pem");
  const absl::Status status = Call(server, options);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ConnectTest, SaysWhichFileIsWrong) {
  ConnectOptions options;
  options.address = "localhost:1";
  options.ca_file = "/nothing/here.pem";
  absl::Status status = Client::Connect(options).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nothing/here.pem"));

  options.ca_file = Files().Path("");  // a folder
  status = Client::Connect(options).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;

  options.ca_file = Files().Path("names");  // no PEM
  status = Client::Connect(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("PEM"));

  options.ca_file = Files().Path("key.pem");  // PEM, but no certificate
  status = Client::Connect(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificates"));

  options.ca_file.clear();
  options.cert_file = Files().Path("cert.pem");
  EXPECT_TRUE(absl::IsInvalidArgument(Client::Connect(options).status())) << "its key is missing";
  options.key_file = Files().Path("cert.pem");
  status = Client::Connect(options).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("must be a private key"));
}

}  // namespace
}  // namespace tvq::client
