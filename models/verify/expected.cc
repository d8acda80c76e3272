#include "models/verify/expected.h"

#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "models/runtime/safetensors.h"
#include "models/runtime/weights.h"

namespace tvq::verify {
namespace {

class Reader {
 public:
  Reader(const SafetensorsFile& file, int64_t vocab) : file_(file), vocab_(vocab) {}

  absl::StatusOr<ExpectedSequence> Sequence(const std::string& name) const {
    ExpectedSequence sequence;
    sequence.name = name;
    absl::StatusOr<std::vector<int32_t>> tokens = Ids(name + ".tokens");
    if (!tokens.ok()) return tokens.status();
    sequence.tokens = *std::move(tokens);
    const int64_t length = static_cast<int64_t>(sequence.tokens.size());
    if (absl::Status s = ReadCodes(sequence); !s.ok()) return s;

    if (file_.Find(name + ".prompt_tokens") != nullptr) {
      absl::StatusOr<std::vector<int32_t>> prompt = Ids(name + ".prompt_tokens");
      if (!prompt.ok()) return prompt.status();
      absl::StatusOr<std::vector<float>> logprobs = Floats(name + ".logprobs", {length});
      if (!logprobs.ok()) return logprobs.status();
      sequence.greedy = true;
      sequence.prompt = *std::move(prompt);
      sequence.token_logprobs = *std::move(logprobs);
      return sequence;
    }
    sequence.row_width = vocab_;
    if (const HostTensor* vectors = file_.Find(name + ".vectors"); vectors != nullptr) {
      sequence.encoded = true;
      sequence.row_count = length;
      sequence.row_width = vectors->shape.empty() ? 0 : vectors->shape.back();
      absl::StatusOr<std::vector<float>> rows =
          Floats(name + ".vectors", {length, sequence.row_width});
      if (!rows.ok()) return rows.status();
      sequence.rows = *std::move(rows);
      if (sequence.rows.empty()) return Error(name + ".vectors", "has no numbers");
      return sequence;
    }
    const bool last_only = file_.Find(name + ".logprobs") == nullptr;
    const std::string rows_name = name + (last_only ? ".last_logprobs" : ".logprobs");
    if (const HostTensor* rows = file_.Find(rows_name); rows != nullptr) {
      sequence.row_count = last_only && !rows->shape.empty() ? rows->shape[0] : length;
      absl::StatusOr<std::vector<float>> values = Floats(rows_name, {sequence.row_count, vocab_});
      if (!values.ok()) return values.status();
      if (sequence.row_count > length) {
        return Error(rows_name, absl::StrCat("more rows than the ", length, " tokens"));
      }
      sequence.rows = *std::move(values);
    }
    if (file_.Find(name + ".target_logprobs") != nullptr) {
      absl::StatusOr<std::vector<float>> values = Floats(name + ".target_logprobs", {length - 1});
      if (!values.ok()) return values.status();
      sequence.targets = *std::move(values);
    }
    if (sequence.rows.empty() && sequence.targets.empty()) {
      return Error(name + ".logprobs or .vectors", "missing; there is nothing to compare with");
    }
    return sequence;
  }

 private:
  absl::Status Error(const std::string& tensor, const std::string& problem) const {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": ", tensor, ": ", problem));
  }

  // Does not check that the codes fit the model: Compare does.
  absl::Status ReadCodes(ExpectedSequence& sequence) const {
    const std::string name = sequence.name + ".codes";
    const HostTensor* tensor = file_.Find(name);
    if (tensor == nullptr) return absl::OkStatus();
    const HostTensor* prompt = file_.Find(sequence.name + ".prompt_tokens");
    const int64_t length =
        std::ssize(sequence.tokens) + (prompt == nullptr ? 0 : prompt->ElementCount());
    if (tensor->dtype != HostDType::kI32 || tensor->shape.size() != 2 ||
        tensor->shape[0] != length || tensor->shape[1] == 0) {
      return Error(name,
                   absl::StrCat("is ", std::string(DTypeName(tensor->dtype)), " ",
                                ShapeString(tensor->shape), ", must be I32 [", length, ", heads]"));
    }
    sequence.codes.resize(static_cast<size_t>(tensor->ElementCount()));
    std::memcpy(sequence.codes.data(), tensor->data, tensor->ByteSize());
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int32_t>> Ids(const std::string& name) const {
    const HostTensor* tensor = file_.Find(name);
    if (tensor == nullptr) return Error(name, "missing");
    if (tensor->dtype != HostDType::kI32 || tensor->shape.size() != 1 || tensor->shape[0] == 0) {
      return Error(name, absl::StrCat("is ", std::string(DTypeName(tensor->dtype)), " ",
                                      ShapeString(tensor->shape),
                                      ", must be I32 of one dimension, not empty"));
    }
    std::vector<int32_t> ids(static_cast<size_t>(tensor->shape[0]));
    std::memcpy(ids.data(), tensor->data, tensor->ByteSize());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocab_) {
        return Error(name, absl::StrCat("entry ", i, " is ", ids[i], ", must be in [0, ", vocab_,
                                        "), the model's vocabulary"));
      }
    }
    return ids;
  }

  absl::StatusOr<std::vector<float>> Floats(const std::string& name,
                                            const std::vector<int64_t>& shape) const {
    const HostTensor* tensor = file_.Find(name);
    if (tensor == nullptr) return Error(name, "missing");
    if (tensor->shape != shape) {
      return Error(name, absl::StrCat("has shape ", ShapeString(tensor->shape), ", must be ",
                                      ShapeString(shape)));
    }
    return ToFloat32(*tensor);
  }

  const SafetensorsFile& file_;
  const int64_t vocab_;
};

}  // namespace

absl::StatusOr<std::vector<ExpectedSequence>> ReadExpected(const std::string& path, int64_t vocab) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::Open(path);
  if (!file.ok()) return file.status();
  std::set<std::string> names;
  for (const auto& [tensor, unused] : (*file)->tensors()) {
    const size_t dot = tensor.rfind('.');
    if (dot != std::string::npos) names.insert(tensor.substr(0, dot));
  }
  const Reader reader(**file, vocab);
  std::vector<ExpectedSequence> sequences;
  for (const std::string& name : names) {
    absl::StatusOr<ExpectedSequence> sequence = reader.Sequence(name);
    if (!sequence.ok()) return sequence.status();
    sequences.push_back(*std::move(sequence));
  }
  if (sequences.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": holds no sequence NAME.tokens"));
  }
  return sequences;
}

}  // namespace tvq::verify
