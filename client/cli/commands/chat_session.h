#ifndef TVQ_CLIENT_CLI_COMMANDS_CHAT_SESSION_H_
#define TVQ_CLIENT_CLI_COMMANDS_CHAT_SESSION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/cpp/client.h"
#include "tvq/v1/session.pb.h"

namespace tvq::cli {

// Which session a chat is in, and whether it ends with the chat.
class ChatSession {
 public:
  enum class Stays : uint8_t {
    kAlways,
    kIfUsed,  // it is not as it was made
    kNever
  };

  // The client must outlive this.
  ChatSession(client::Client& client, v1::Session session, Stays stays)
      : client_(client), begun_(std::move(session)), id_(begun_.id()), stays_(stays) {}

  // These may be called in any thread.
  std::string id() const;
  bool stays() const;
  void Keep();
  // The chat goes on in another session, which stays. So does the first one.
  void GoOnIn(const std::string& id);
  // Deletes the session if it does not stay. With kNever, repeats that for `patience` while a call
  // on it ends.
  void End(const client::CallOptions& call, absl::Duration patience);

 private:
  client::Client& client_;
  const v1::Session begun_;  // as it was when the chat began
  mutable Mutex mutex_;
  std::string id_ ABSL_GUARDED_BY(mutex_);
  Stays stays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_CHAT_SESSION_H_
