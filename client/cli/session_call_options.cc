#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

constexpr char kSessionGroup[] = "Session";

}  // namespace

flags::Option AddDurability(flags::Command command, v1::Durability& durability) {
  return command
      .AddFunction<std::string>(
          "--durability",
          [&durability](const std::string& name) {
            durability = name == "disk" ? v1::DURABILITY_DISK : v1::DURABILITY_MEMORY;
          },
          "disk: done means on the server's durable tier, a directory or a Redis. memory: in the "
          "server's memory, the default but for a session that is made where servers share the "
          "tier")
      .TypeName("memory|disk")
      .OneOfUnnamed({"memory", "disk"});
}

void SessionCallOptions::AddTo(flags::Command command) {
  const flags::Option session =
      command.Add("--session", id_, "Continue this session, which then holds what was added, too")
          .TypeName("ID")
          .NotEmpty(kAnId)
          .Group(kSessionGroup);
  for (const flags::Option option : AddCommon(command)) option.Needs(session);
}

void SessionCallOptions::AddCommitOnCancel(flags::Command command) {
  command
      .AddFlag("--commit-on-cancel", commit_on_cancel_,
               "At Ctrl-C the session keeps what was generated so far")
      .Needs(command.Find("--session"))
      .Group(kSessionGroup);
}

void SessionCallOptions::AddTo(flags::Command command, const char* id_help) {
  command.Add("id", id_, id_help).TypeName("").NotEmpty(kAnId).Required();
  AddCommon(command);
}

std::array<flags::Option, 3> SessionCallOptions::AddCommon(flags::Command command) {
  const flags::Option version = command
                                    .Add("--expected-version", expected_version_,
                                         "Refuse unless the session is at this version")
                                    .TypeName("VERSION")
                                    .Group(kSessionGroup);
  const flags::Option durability = AddDurability(command, durability_).Group(kSessionGroup);
  const flags::Option key = command
                                .Add("--idempotency-key", idempotency_key_,
                                     "A call repeated with the same key is done once")
                                .TypeName("KEY")
                                .Group(kSessionGroup);
  return {version, durability, key};
}

std::string SessionCallOptions::GivenForWrites() const {
  if (durability_ != v1::DURABILITY_UNSPECIFIED) return "--durability";
  return idempotency_key_.empty() ? "" : "--idempotency-key";
}

void SessionCallOptions::Fill(v1::SessionCall* call) const {
  call->set_session_id(id_);
  if (expected_version_) call->set_expected_version(*expected_version_);
  call->set_durability(durability_);
  call->set_idempotency_key(idempotency_key_);
  call->set_commit_on_cancel(commit_on_cancel_);
}

}  // namespace tvq::cli
