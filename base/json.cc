#include "base/json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/quoted.h"

namespace tvq {
namespace {

using nlohmann::json;

// Builds the document from the parser's events and stops it at the first violation.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(size_t bytes, const JsonLimits& limits) : bytes_(bytes), limits_(limits) {}

  json& root() { return root_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(int64_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return Add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return Add(value) != nullptr; }
  bool string(std::string& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) override { return Fail("holds binary data"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& value) override {
    if (open_.back()->contains(value)) {
      return Fail(absl::StrCat("gives the key ", Quoted(value), " twice"));
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    if (bytes_ == 0) return Fail("is empty, must be a JSON object");
    if (position > bytes_) {
      return Fail(
          absl::StrCat("is not valid JSON: it ends at byte ", bytes_, ", before it is complete"));
    }
    return Fail(absl::StrCat("is not valid JSON near byte ", position));
  }

 private:
  json* Add(json value) {
    if (open_.empty() && !value.is_object()) {
      Fail("must be a JSON object");
      return nullptr;
    }
    if (++values_ > limits_.values) {
      Fail(absl::StrCat("holds more than ", limits_.values, " values"));
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }

  bool Open(json container) {
    if (open_.size() >= limits_.depth) {
      return Fail(absl::StrCat("nests deeper than ", limits_.depth, " levels"));
    }
    json* added = Add(std::move(container));
    if (added == nullptr) return false;
    open_.push_back(added);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  const size_t bytes_;  // of the document
  const JsonLimits limits_;
  json root_;
  std::vector<json*> open_;  // stays valid: only the innermost container grows
  std::string key_;
  size_t values_ = 0;
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> ParseJsonObject(std::string_view text, std::string_view source,
                                     const JsonLimits& limits) {
  Builder builder(text.size(), limits);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), " ", builder.problem()));
  }
  return std::move(builder.root());
}

std::string JsonLine(const std::string& document) {
  return absl::StrReplaceAll(document, kJsonLineEnds);
}

}  // namespace tvq
