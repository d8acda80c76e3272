// What a request is about: a text or several, as text or as token ids.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_INPUTS_H_
#define TVQ_CLIENT_GATEWAY_BODIES_INPUTS_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/gateway/bodies/json_body.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// False: not integers of 32 bits.
bool ReadIds(const Json& list, v1::TokenIds* ids);

// One of several. False: neither a string nor a list of token ids.
template <typename Call>
bool ReadInput(const Json& input, Call* call) {
  if (input.is_string()) {
    call->set_text(input.get<std::string>());
    return true;
  }
  return input.is_array() && ReadIds(input, call->mutable_token_ids());
}

template <typename Call>
size_t MemoryOf(const std::vector<Call>& calls) {
  size_t bytes = 0;
  for (const Call& call : calls) bytes += call.SpaceUsedLong();
  return bytes;
}

// Of what the texts of a request have in common, which each call has again.
inline constexpr size_t kMaxCopiesBytes = size_t{32} << 20;

// Whether the field has texts, or lists of token ids, one of which an error is about.
inline bool HasSeveral(const Json& inputs) {
  return inputs.is_array() && !inputs.empty() && !inputs.front().is_number();
}

// Reads the field `name`, which must be there. Adds to `calls` a copy of `call` for each of its
// texts (at most `most`), with `text` or `token_ids` set.
template <typename Call>
void ReadInputs(Fields& fields, const char* name, size_t most, Call call,
                std::vector<Call>* calls) {
  const Json& inputs = *fields.Find(name);
  const auto is_number = [](const Json& item) { return item.is_number(); };
  const auto same_type = [&](const Json& item) { return item.type() == inputs.front().type(); };
  const bool is_list = inputs.is_array() && !inputs.empty();
  if (inputs.is_string() || (is_list && std::all_of(inputs.begin(), inputs.end(), is_number))) {
    if (!ReadInput(inputs, &call)) fields.Fail(name, "must have token ids of 32 bits");
    calls->push_back(std::move(call));
  } else if (inputs.is_array() && inputs.empty()) {
    fields.Fail(name, "is an empty list, must have at least one text, token id or list of ids");
  } else if (!is_list || !std::all_of(inputs.begin(), inputs.end(), same_type)) {
    fields.Fail(name,
                "must be a string, a list of strings, a list of token ids or a list of such lists");
  } else if (inputs.size() > most) {
    fields.Fail(name, absl::StrCat("has ", inputs.size(), " ", name, "s, may have ", most));
  } else if (inputs.size() * call.SpaceUsedLong() > kMaxCopiesBytes) {
    fields.Fail(name,
                absl::StrCat("has ", inputs.size(), " ", name,
                             "s, too many for the other fields' size; ask in several requests"));
  } else {
    calls->reserve(inputs.size());
    for (const Json& one : inputs) {
      calls->push_back(call);
      if (ReadInput(one, &calls->back())) continue;
      fields.Fail(absl::StrCat(name, "[", calls->size() - 1, "]"),
                  "must be a string or a list of token ids");
      return;
    }
  }
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_INPUTS_H_
