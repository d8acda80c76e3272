#ifndef TVQ_CLIENT_CLI_CREATE_OPTIONS_H_
#define TVQ_CLIENT_CLI_CREATE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/flags.h"
#include "client/cli/command.h"
#include "tvq/v1/session.pb.h"

namespace tvq::cli {

// CreateSessionRequest as flags. Stays where it is while its app lives.
class CreateOptions {
 public:
  void AddTo(flags::Command command);
  void Fill(v1::CreateSessionRequest* request) const;
  v1::Durability durability() const { return durability_; }
  const std::string& idempotency_key() const { return idempotency_key_; }
  const std::string& model() const { return model_; }
  // Whether what was given is of use only where the session stays when its maker has gone.
  bool MeantToStay() const { return !label_.empty() || ttl_ || durability_ == v1::DURABILITY_DISK; }
  // An option that is given and is of new sessions alone; "" if none is.
  std::string GivenForNew() const;

 private:
  std::string model_;
  std::string label_;
  std::optional<double> ttl_;  // seconds
  std::optional<bool> transcript_;
  std::optional<bool> add_special_tokens_;  // of calls on it that do not say
  v1::Durability durability_ = v1::DURABILITY_UNSPECIFIED;
  std::string idempotency_key_;
};

// --ttl alone, in seconds.
flags::Option AddTtl(flags::Command command, std::optional<double>& ttl);

// A session that was made: its id, or all of it with --json.
void Print(const Globals& globals, const v1::Session& session);

// Call it when new sessions have been printed. If stdout could not be written, nobody knows the
// sessions, so they are deleted; but not if there is an idempotency key, for a call with the same
// key would tell them again. Returns the exit code.
int EndOfNew(const Globals& globals, std::span<const v1::Session> made,
             const std::string& idempotency_key);

// Deletes a session that is of no use to anybody, if the server lets it.
void TryDelete(const Globals& globals, const std::string& id);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_CREATE_OPTIONS_H_
