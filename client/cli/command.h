// What the subcommands of `tvq` share.
#ifndef TVQ_CLIENT_CLI_COMMAND_H_
#define TVQ_CLIENT_CLI_COMMAND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/flags.h"
#include "client/cli/connect_flags.h"
#include "client/cli/io/interrupt.h"
#include "client/cpp/client.h"

namespace tvq::cli {

enum ExitCode {
  kOk = 0,
  kServerError = 1,   // the server refused the request or failed
  kUsage = 2,         // wrong flags, or a file that cannot be read or written
  kUnavailable = 3,   // the server cannot be reached, or is stopping
  kDeadline = 4,      // --timeout, or the output was taken too slowly
  kInterrupted = 130  // Ctrl-C
};

// Options of all subcommands, and the one to run.
struct Globals {
  ConnectFlags connect;
  bool json = false;
  double timeout = 0;  // seconds; 0: none
  Interrupt* interrupt = nullptr;
  bool sends_key = true;                   // of the command; it may leave the key alone
  std::unique_ptr<client::Client> client;  // set before `run` is called
  std::function<int()> run;

  client::CallOptions Call() const;
  // Explain the failure of a call, or of what was asked for, on stderr.
  int Fail(const absl::Status& status) const;
  int FailUsage(const absl::Status& status) const;

 private:
  // The message of a call that failed, with the options that would help.
  std::string Told(const absl::Status& status) const;
};

// Each adds its subcommand; parsing it sets globals.run. `globals` must outlive the app.
void AddGenerate(flags::Command app, Globals& globals);
void AddScore(flags::Command app, Globals& globals);
void AddDraw(flags::Command app, Globals& globals);
void AddEncode(flags::Command app, Globals& globals);
void AddTokenize(flags::Command app, Globals& globals);
void AddDetokenize(flags::Command app, Globals& globals);
void AddInfo(flags::Command app, Globals& globals);  // also as `models`
void AddSession(flags::Command app, Globals& globals);
void AddAdmin(flags::Command app, Globals& globals);

// The subcommands of `tvq session`.
void AddSessionQueries(flags::Command session, Globals& globals);
void AddSessionWrites(flags::Command session, Globals& globals);
void AddSessionSnapshots(flags::Command session, Globals& globals);
void AddSessionChat(flags::Command session, Globals& globals);  // also one of `tvq`

// --model, for a command that needs one.
flags::Option AddModel(flags::Command command, std::string& model);

// --allow-unknown, for a command that has text tokenized.
flags::Option AddAllowUnknown(flags::Command command, bool& allow);

// --add-special-tokens and --no-add-special-tokens, for a command whose text may begin a context.
void AddSpecialTokens(flags::Command command, std::optional<bool>& add);

// ", 3 of them unknown" behind a number of tokens; nothing if there are none.
std::string OfThemUnknown(int64_t count);

// "1 key", "2 keys".
std::string Counted(int64_t count, std::string_view noun);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMAND_H_
