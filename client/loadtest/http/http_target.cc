#include "client/loadtest/http/http_target.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/loadtest/http/http_transport.h"

namespace tvq::loadtest {
namespace {

using Json = nlohmann::json;

// A name as a part of a path.
std::string PercentEncoded(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded += c;
    } else {
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

absl::Status Unexpected(const Url& url, const std::string& path) {
  return absl::UnknownError(
      absl::StrCat(url.authority(), path, ": the answer is not what a tvq-gateway would say"));
}

class HttpTarget final : public Target {
 public:
  HttpTarget(const HttpOptions& options, std::unique_ptr<HttpTransport> transport)
      : options_(options), transport_(std::move(transport)) {}

  absl::StatusOr<ModelInfo> GetModel(const std::string& name) override {
    const std::string path = name.empty() ? "/v1/models" : "/v1/models/" + PercentEncoded(name);
    auto json = Fetch("GET", path, "");
    if (!json.ok()) return json.status();
    if (name.empty()) {
      const Json models = json->value("data", Json::array());
      if (!models.is_array() || models.size() != 1) {
        return absl::InvalidArgumentError(absl::StrCat(options_.url.authority(), " serves ",
                                                       models.size(), " models: give --model"));
      }
      json = models[0];
    }
    const auto server = Fetch("GET", "/v1/server", "");
    if (!server.ok()) return server.status();
    try {
      ModelInfo info{.name = json->at("id"),
                     .vocab_size = json->at("vocab_size"),
                     .max_prompt_tokens = json->at("max_prompt_tokens"),
                     .server = absl::StrCat("tvq-server ", std::string(server->at("version")), ", ",
                                            std::string(server->at("device")))};
      for (const char* key : {"pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id"}) {
        const Json id = json->value(key, Json());
        if (id.is_number_integer()) info.special_ids.push_back(id);
      }
      return info;
    } catch (const Json::exception&) {
      return Unexpected(options_.url, path);
    }
  }

  absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model,
                                                const std::string& text) override {
    // Pieces are cut anywhere, not where a context begins.
    const Json body = {{"model", model}, {"prompt", text}, {"add_special_tokens", false}};
    const auto json =
        Fetch("POST", "/tokenize", body.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!json.ok()) return json.status();
    try {
      return std::vector<int32_t>(json->at("tokens"));
    } catch (const Json::exception&) {
      return Unexpected(options_.url, "/tokenize");
    }
  }

  std::unique_ptr<Transport> Open(const RequestSettings& settings) override {
    auto transport = MakeHttpTransport(options_, settings);
    return transport.ok() ? std::move(*transport) : nullptr;
  }

  std::string Description() const override {
    return absl::StrCat("HTTP ", options_.url.authority(), options_.url.prefix,
                        options_.url.tls ? ", TLS" : "",
                        options_.keep_alive ? ", keep-alive" : ", a connection for each request");
  }

 private:
  absl::StatusOr<Json> Fetch(const std::string& method, const std::string& path,
                             const std::string& body) {
    const auto content = transport_->Fetch(method, path, body);
    if (!content.ok()) return content.status();
    Json json = Json::parse(*content, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return Unexpected(options_.url, path);
    return json;
  }

  const HttpOptions options_;
  const std::unique_ptr<HttpTransport> transport_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenHttpTarget(const HttpOptions& options) {
  auto transport = MakeHttpTransport(options, {});
  if (!transport.ok()) return transport.status();
  return std::make_unique<HttpTarget>(options, std::move(*transport));
}

}  // namespace tvq::loadtest
