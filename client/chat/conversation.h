// A conversation as a model's chat template writes it.
#ifndef TVQ_CLIENT_CHAT_CONVERSATION_H_
#define TVQ_CLIENT_CHAT_CONVERSATION_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq::chat {

struct Message {
  std::string role;  // system, user or assistant
  std::string content;
};

// Bytes of a prompt.
struct Place {
  size_t begin = 0;
  size_t end = 0;
  size_t left_out = 0;  // bytes that whoever wrote these wrote before them
};

// Makes the call ask for the answer to the messages: they are its prompt, with the assistant's
// prefix behind them, and the template's stop strings end the answer. On a session the prompt first
// closes the answer that it goes on from. Returns where the contents are in the prompt. The model
// must have a template; INVALID_ARGUMENT if that has none for a role.
absl::StatusOr<std::vector<Place>> Ask(const v1::Model& model, std::span<const Message> messages,
                                       v1::GenerateRequest* call);

// What the server finds wrong with the prompt it tells "at byte offset N" of that, which whoever
// wrote the messages has not seen. Of a byte of a message's content it is counted there instead,
// with what was left out, and the message's index is returned.
std::optional<size_t> CountInMessage(std::span<const Place> contents, std::string* complaint);

// Makes the call go on with the answer that the session has, until one of the stop strings.
void GoOn(const v1::ChatTemplate& chat, v1::GenerateRequest* call);

}  // namespace tvq::chat

#endif  // TVQ_CLIENT_CHAT_CONVERSATION_H_
