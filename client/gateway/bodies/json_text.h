// JSON written by hand, where a document in memory would cost more than the text itself.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_JSON_TEXT_H_
#define TVQ_CLIENT_GATEWAY_BODIES_JSON_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tvq::gateway {

// Appends `text` in quotes. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);
// The shortest digits that give the same float; JSON has no infinities: -9999 stands for the one.
void AppendJsonNumber(float value, std::string* out);
void AppendJsonNumber(int64_t value, std::string* out);

// Length of the UTF-8 character that `text` begins with; 0 if it begins with none.
size_t CharacterBytes(std::string_view text);
bool IsUtf8(std::string_view text);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_JSON_TEXT_H_
