// The body of POST /v1/embeddings, and its answer.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_EMBEDDINGS_H_
#define TVQ_CLIENT_GATEWAY_BODIES_EMBEDDINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/bodies/inputs.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// Texts of one request, as many as OpenAI's service takes.
inline constexpr size_t kMaxInputs = 2048;

struct EmbeddingsRequest {
  std::string model;                     // empty: the server's first one
  std::vector<v1::EncodeRequest> calls;  // one for each text, at least one; of each the mean
  bool is_list = false;                  // of texts
  bool base64 = false;
  std::optional<int32_t> dimensions;

  // Of the calls.
  size_t MemoryBytes() const { return MemoryOf(calls); }
};

// INVALID_ARGUMENT names the field.
absl::StatusOr<EmbeddingsRequest> ParseEmbeddings(std::string_view body);

// INVALID_ARGUMENT unless vectors of `width` numbers are what was asked for.
absl::Status CheckDimensions(const EmbeddingsRequest& request, int32_t width);

// Why the call with this number failed, its text called as in the body: "input[1]", a token id
// "input[1][5]".
ApiError ToEmbeddingsError(const absl::Status& status, const EmbeddingsRequest& request,
                           size_t call);

class EmbeddingsAnswer {
 public:
  explicit EmbeddingsAnswer(const EmbeddingsRequest& request)
      : base64_(request.base64), replies_(request.calls.size()) {}

  // Of the call with this number; once for each, in any order.
  void Add(size_t call, v1::EncodeResponse reply) { replies_[call] = std::move(reply); }

  // {"object":"list","data":[{"object":"embedding","index":0,"embedding":...}],"model":...,"usage":
  // {"prompt_tokens":...,"total_tokens":...}}. An embedding is a list of numbers, or the base64 of
  // its float32 in little-endian order.
  std::string ToJson(std::string_view model) const;

 private:
  const bool base64_;
  std::vector<v1::EncodeResponse> replies_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_EMBEDDINGS_H_
