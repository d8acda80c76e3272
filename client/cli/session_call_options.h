#ifndef TVQ_CLIENT_CLI_SESSION_CALL_OPTIONS_H_
#define TVQ_CLIENT_CLI_SESSION_CALL_OPTIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/flags.h"
#include "tvq/v1/session.pb.h"

namespace tvq::cli {

// What the id of a session must be.
inline constexpr char kAnId[] = "a session's id";

// SessionCall as flags: which session a call uses, and how.
class SessionCallOptions {
 public:
  // For a command that may run on a session: --session ID and what belongs to it.
  void AddTo(flags::Command command);
  // --commit-on-cancel beside them, for a command that generates.
  void AddCommitOnCancel(flags::Command command);
  // For a command on a session: the id is its first argument.
  void AddTo(flags::Command command, const char* id_help);

  bool given() const { return !id_.empty(); }
  const std::string& id() const { return id_; }
  void Fill(v1::SessionCall* call) const;
  // An option that is given and is of calls that write alone; "" if none is.
  std::string GivenForWrites() const;

 private:
  // The flags beside the id.
  std::array<flags::Option, 3> AddCommon(flags::Command command);

  std::string id_;
  std::optional<int64_t> expected_version_;
  v1::Durability durability_ = v1::DURABILITY_UNSPECIFIED;
  std::string idempotency_key_;
  bool commit_on_cancel_ = false;
};

// --durability alone.
flags::Option AddDurability(flags::Command command, v1::Durability& durability);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_SESSION_CALL_OPTIONS_H_
