#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

constexpr char kGroup[] = "Session";

}  // namespace

CLI::Option* AddDurability(CLI::App& command, v1::Durability& durability) {
  return command
      .add_option_function<std::string>(
          "--durability",
          [&durability](const std::string& name) {
            durability = name == "disk" ? v1::DURABILITY_DISK : v1::DURABILITY_MEMORY;
          },
          "disk: done means on the server's durable tier, a directory or a Redis. memory: in the "
          "server's memory, the default but for a session that is made where servers share the "
          "tier")
      ->type_name("memory|disk")
      ->check(CLI::IsMember({"memory", "disk"}).description(""));
}

void SessionCallOptions::AddTo(CLI::App& command) {
  CLI::Option* session =
      command
          .add_option("--session", id_, "Continue this session, which then holds the output too")
          ->type_name("ID")
          ->group(kGroup);
  AddCommon(command, session);
}

void SessionCallOptions::AddCommitOnCancel(CLI::App& command) {
  command
      .add_flag("--commit-on-cancel", commit_on_cancel_,
                "At Ctrl-C the session keeps what was generated so far")
      ->needs("--session")
      ->group(kGroup);
}

void SessionCallOptions::AddTo(CLI::App& command, const char* id_help) {
  command.add_option("id", id_, id_help)->type_name("")->required();
  AddCommon(command, nullptr);
}

void SessionCallOptions::AddCommon(CLI::App& command, CLI::Option* needs) {
  CLI::Option* version = command
                             .add_option("--expected-version", expected_version_,
                                         "Refuse unless the session is at this version")
                             ->type_name("VERSION")
                             ->group(kGroup);
  CLI::Option* durability = AddDurability(command, durability_)->group(kGroup);
  CLI::Option* key = command
                         .add_option("--idempotency-key", idempotency_key_,
                                     "A call repeated with the same key is done once")
                         ->type_name("KEY")
                         ->group(kGroup);
  if (needs == nullptr) return;
  for (CLI::Option* option : {version, durability, key}) option->needs(needs);
}

void SessionCallOptions::Fill(v1::SessionCall* call) const {
  call->set_session_id(id_);
  if (expected_version_) call->set_expected_version(*expected_version_);
  call->set_durability(durability_);
  call->set_idempotency_key(idempotency_key_);
  call->set_commit_on_cancel(commit_on_cancel_);
}

}  // namespace tvq::cli
