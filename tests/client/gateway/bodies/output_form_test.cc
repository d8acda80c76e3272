#include "client/gateway/bodies/output_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/gateway/bodies/completions_request.h"

namespace tvq::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

absl::StatusOr<v1::SamplingParams> Read(const std::string& fields) {
  const auto request = ParseCompletions(R"({"prompt": "a", )" + fields + "}", "");
  if (!request.ok()) return request.status();
  return request->calls.at(0).sampling();
}

TEST(OutputFormTest, EveryNameOfAForm) {
  for (
      const char* fields : {
          R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true,
                                                                         "schema": {"z":0,"a":1}}})",
          R"("guided_json": {"z":0,"a":1})",
          R"("guided_json": "{\"z\":0,\"a\":1}")",
          R"("structured_outputs": {"json": {"z":0,"a":1}})",
          R"("json_schema": "{\"z\":0,\"a\":1}")",
      }) {
    const auto sampling = Read(fields);
    ASSERT_TRUE(sampling.ok()) << fields << sampling.status();
    EXPECT_EQ(sampling->json_schema(), R"({"z":0,"a":1})") << fields;
  }
  for (const char* fields : {R"("response_format": {"type": "json_object"})",
                             R"("structured_outputs": {"json_object": true})"}) {
    EXPECT_EQ(Read(fields)->json_schema(), R"({"type": "object"})") << fields;
  }
  for (const char* fields : {R"("guided_regex": "a+")", R"("structured_outputs": {"regex": "a+"})",
                             R"("regex": "a+")"}) {
    EXPECT_EQ(Read(fields)->regex(), "a+") << fields;
  }
  for (const char* fields :
       {R"("guided_grammar": "start: X")", R"("structured_outputs": {"grammar": "start: X"})",
        R"("lark": "start: X")"}) {
    EXPECT_EQ(Read(fields)->lark(), "start: X") << fields;
  }
  for (const char* fields :
       {R"("guided_choice": ["a", "b"])", R"("structured_outputs": {"choice": ["a", "b"]})",
        R"("choice": ["a", "b"])"}) {
    EXPECT_THAT(Read(fields)->choice(), ElementsAre("a", "b")) << fields;
  }
}

TEST(OutputFormTest, AnyTextIsTheDefault) {
  for (const char* fields : {R"("response_format": {"type": "text"})", R"("response_format": null)",
                             R"("response_format": {})", R"("guided_json": null)",
                             R"("guided_choice": [])", R"("structured_outputs": {})",
                             R"("structured_outputs": {"json_object": false, "regex": null})"}) {
    const auto sampling = Read(fields);
    ASSERT_TRUE(sampling.ok()) << fields << sampling.status();
    EXPECT_EQ(sampling->form_case(), v1::SamplingParams::FORM_NOT_SET);
    EXPECT_TRUE(sampling->choice().empty());
  }
}

TEST(OutputFormTest, ErrorsNameTheField) {
  for (const auto& [fields, begin] : {
           std::pair(R"("response_format": "json")", "response_format: is \"json\", must be an"),
           std::pair(R"("response_format": {"type": 1})", "response_format.type: "),
           std::pair(R"("response_format": {"type": "xml"})",
                     "response_format.type: must be text, json_object or json_schema"),
           std::pair(R"("response_format": {"type": "json_schema"})",
                     "response_format.json_schema.schema: must be a JSON Schema"),
           std::pair(R"("response_format": {"type": "json_schema", "json_schema": {"schema": 1}})",
                     "response_format.json_schema.schema: is 1, must be a JSON Schema"),
           std::pair(R"("guided_json": [1])", "guided_json: "),
           std::pair(R"("guided_regex": 1)", "guided_regex: is 1"),
           std::pair(R"("guided_choice": ["a", 1])", "guided_choice"),
           std::pair(R"("structured_outputs": {"structural_tag": "a"})",
                     "structured_outputs.structural_tag: must be left out"),
           std::pair(R"("regex": "a", "lark": "b")", "lark: must be left out where regex is given"),
           std::pair(R"("structured_outputs": {"regex": 1})", "structured_outputs.regex: is 1"),
           std::pair(R"("structured_outputs": {"regex": "a", "choice": ["a"]})",
                     "structured_outputs.choice: must be left out where another"),
           std::pair(R"("guided_regex": "a", "response_format": {"type": "json_object"})",
                     "guided_regex: must be left out where another"),
           std::pair(R"("guided_regex": "a", "guided_json": true)", "guided_regex: must be left"),
           std::pair(R"("guided_grammar": "a", "guided_regex": "a")",
                     "guided_grammar: must be left"),
           std::pair(R"("regex": "a", "structured_outputs": {"json_object": true})",
                     "structured_outputs.json_object: must be left"),
           std::pair(R"("choice": ["a"], "response_format": {"type": "json_object"})",
                     "response_format.type: must be left"),
       }) {
    const auto sampling = Read(fields);
    EXPECT_EQ(sampling.status().code(), absl::StatusCode::kInvalidArgument) << fields;
    EXPECT_THAT(std::string(sampling.status().message()), StartsWith(begin)) << fields;
  }
}

}  // namespace
}  // namespace tvq::gateway
