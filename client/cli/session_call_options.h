#ifndef TVQ_CLIENT_CLI_SESSION_CALL_OPTIONS_H_
#define TVQ_CLIENT_CLI_SESSION_CALL_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "tvq/v1/session.pb.h"

namespace tvq::cli {

// SessionCall as flags: which session a call uses, and how.
class SessionCallOptions {
 public:
  // For a command that may run on a session: --session ID and what belongs to it.
  void AddTo(CLI::App& command);
  // --commit-on-cancel beside them, for a command that generates.
  void AddCommitOnCancel(CLI::App& command);
  // For a command on a session: the id is its first argument.
  void AddTo(CLI::App& command, const char* id_help);

  bool given() const { return !id_.empty(); }
  const std::string& id() const { return id_; }
  void Fill(v1::SessionCall* call) const;

 private:
  // The flags beside the id; `needs`: they want this one too.
  void AddCommon(CLI::App& command, CLI::Option* needs);

  std::string id_;
  std::optional<int64_t> expected_version_;
  v1::Durability durability_ = v1::DURABILITY_UNSPECIFIED;
  std::string idempotency_key_;
  bool commit_on_cancel_ = false;
};

// --durability alone.
CLI::Option* AddDurability(CLI::App& command, v1::Durability& durability);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_SESSION_CALL_OPTIONS_H_
