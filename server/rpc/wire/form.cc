#include "server/rpc/wire/form.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/refusal.h"

namespace tvq {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 10;  // of a schema, an expression or a grammar

struct Form {
  const char* field;
  GrammarLanguage language;
  std::string source;
};

// One terminal of Lark's, for which any number of texts is one automaton.
absl::StatusOr<std::string> TerminalOf(const v1::SamplingParams& sampling) {
  std::string rule = "start: CHOICE\nCHOICE: ";
  for (int i = 0; i < sampling.choice_size(); ++i) {
    if (sampling.choice(i).empty()) {
      return Refused(Reason::kValueInvalid, absl::StrCat("choice[", i, "]"), "must not be empty");
    }
    // A string of Lark's is one of JSON's, but that U+007F must be escaped.
    absl::StrAppend(
        &rule, i == 0 ? "" : " | ",
        absl::StrReplaceAll(nlohmann::json(sampling.choice(i)).dump(), {{"\x7f", "\\u007f"}}));
  }
  return rule;
}

// Nothing where anything may be written.
absl::StatusOr<std::optional<Form>> FormOf(const v1::SamplingParams& sampling) {
  using Sampling = v1::SamplingParams;
  if (!sampling.choice().empty()) {
    if (sampling.form_case() != Sampling::FORM_NOT_SET) {
      return Refused(Reason::kValuesConflict, "choice",
                     "must be left out where json_schema, regex or lark is given");
    }
    absl::StatusOr<std::string> rule = TerminalOf(sampling);
    if (!rule.ok()) return rule.status();
    return Form{"choice", GrammarLanguage::kLark, *std::move(rule)};
  }
  switch (sampling.form_case()) {
    case Sampling::kJsonSchema:
      return Form{"json_schema", GrammarLanguage::kJsonSchema, sampling.json_schema()};
    case Sampling::kRegex:
      return Form{"regex", GrammarLanguage::kRegex, sampling.regex()};
    case Sampling::kLark:
      return Form{"lark", GrammarLanguage::kLark, sampling.lark()};
    case Sampling::FORM_NOT_SET:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool AsksForForm(const v1::SamplingParams& sampling) {
  return sampling.form_case() != v1::SamplingParams::FORM_NOT_SET || !sampling.choice().empty();
}

absl::StatusOr<std::shared_ptr<const Grammar>> ToGrammar(const v1::SamplingParams& sampling,
                                                         const ServedModel& model) {
  const absl::StatusOr<std::optional<Form>> asked = FormOf(sampling);
  if (!asked.ok()) return asked.status();
  if (!asked->has_value()) return nullptr;
  const Form& form = **asked;
  if (std::ssize(form.source) > kMostBytes) {
    return Refused(
        Reason::kValueInvalid, form.field,
        absl::StrCat("has ", form.source.size(), " bytes, must have at most ", kMostBytes));
  }
  if (sampling.ignore_eos()) {
    return Refused(Reason::kValuesConflict, "ignore_eos",
                   absl::StrCat("must be false where ", form.field, " is given"));
  }
  if (!sampling.allowed_token_ids().empty()) {
    return Refused(Reason::kValuesConflict, "allowed_token_ids",
                   absl::StrCat("must be left out where ", form.field, " is given"));
  }
  if (model.grammars == nullptr) {
    return Refused(Reason::kModelUnfit, form.field,
                   absl::StrCat("must be left out: the model \"", model.name,
                                "\" writes no text, or has no end-of-sequence id"));
  }
  auto grammar = model.grammars->Get(form.language, form.source);
  const absl::Status& status = grammar.status();
  if (absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status)) {
    return Refused(Reason::kValueInvalid, form.field, std::string(status.message()));
  }
  return grammar;
}

}  // namespace tvq
