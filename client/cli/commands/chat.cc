#include "client/cli/commands/chat.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/output_file.h"
#include "client/cli/create_options.h"
#include "client/cli/io/output.h"
#include "client/cli/io/reading.h"
#include "client/cli/io/session_text.h"
#include "client/cli/io/terminal.h"

namespace tvq::cli {
namespace {

// An answer's length when --max-tokens does not say: the server's own, 16, is less than a sentence.
constexpr int32_t kMaxTokens = 256;

// How long an interrupted answer may take to be committed, and how often to look.
constexpr absl::Duration kSettleTime = absl::Seconds(10);
constexpr absl::Duration kSettlePause = absl::Milliseconds(20);

constexpr char kHelp[] =
    "A line is answered; an empty one lets the model go on. // begins a line that starts with /.\n"
    "  /fork [LABEL]   go on in a copy; the original stays as it is\n"
    "  /mark NAME      keep this place\n"
    "  /rewind NAME    back to it\n"
    "  /save           make the session outlive the server\n"
    "  /show           the session: its id, position, marks\n"
    "  /quit           leave; the session stays, unless it is new and nothing was said\n"
    "Ctrl-C ends an answer, which is kept as far as it came.\n";

enum class Argument { kNone, kMayBe, kNeeded };

struct Known {
  std::string_view name;
  Argument argument;
};
constexpr std::array<Known, 7> kCommands = {{{"/fork", Argument::kMayBe},
                                             {"/mark", Argument::kNeeded},
                                             {"/rewind", Argument::kNeeded},
                                             {"/save", Argument::kNone},
                                             {"/show", Argument::kNone},
                                             {"/help", Argument::kNone},
                                             {"/quit", Argument::kNone}}};

// A command, and what stands behind it.
struct Words {
  std::string name, argument;
};

// Of a line that begins with /. INVALID_ARGUMENT for a command that is none, or that is not given
// what it needs.
absl::StatusOr<Words> WordsOf(const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  Words words{line.substr(0, end), line.substr(end)};
  absl::StripAsciiWhitespace(&words.argument);
  const auto* const known = std::find_if(kCommands.begin(), kCommands.end(),
                                         [&](const Known& one) { return one.name == words.name; });
  if (known == kCommands.end()) {
    std::vector<std::string> names;
    names.reserve(kCommands.size());
    for (const Known& one : kCommands) names.emplace_back(one.name);
    const std::string meant = Nearest(words.name, names);
    return absl::InvalidArgumentError(
        absl::StrCat("no command ", Shown(words.name),
                     meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?"),
                     meant.empty() ? "; /help names them" : " /help names them"));
  }
  if (known->argument == Argument::kNone && !words.argument.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(words.name, ": takes nothing behind it"));
  }
  if (known->argument == Argument::kNeeded && words.argument.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(words.name, ": needs the name of a mark"));
  }
  return words;
}

// At once, also into a pipe: somebody waits for it.
void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

Chat::Chat(const Globals& globals, const Options& options)
    : globals_(globals), options_(options), terminal_(isatty(STDIN_FILENO) == 1), id_(options.id) {}

int Chat::Run() {
  if (terminal_) std::cerr << "session " << id_ << "; /help tells more\n";
  std::string line;
  while (ReadLine(&line)) {
    const bool is_command = line.starts_with('/') && !line.starts_with("//");
    const absl::StatusOr<Words> command = is_command ? WordsOf(line) : Words();
    if (command.ok() && command->name == "/quit") return kOk;
    const absl::Status status = !command.ok() ? command.status()
                                : is_command  ? Command(command->name, command->argument)
                                              : Answer(line);
    if (const auto written = FlushStdout(); !written.ok()) return globals_.FailUsage(written);
    if (status.ok()) continue;
    const int code = globals_.Fail(status);
    if (!terminal_) return code;
  }
  if (terminal_) std::cerr << "\n";
  return kOk;
}

bool Chat::ReadLine(std::string* line) {
  if (!terminal_) {
    if (!std::getline(std::cin, *line)) return false;
    if (line->ends_with('\r')) line->pop_back();  // as lines end on Windows
    return true;
  }
  // Before the prompt: who sees it may press Ctrl-C.
  const Interrupt::Guard guard(*globals_.interrupt,
                               [] { std::cerr << "\n(Ctrl-C again or /quit leaves)\n> "; });
  std::cerr << "> ";
  return static_cast<bool>(std::getline(std::cin, *line));
}

absl::Status Chat::Answer(const std::string& line) {
  v1::GenerateRequest request;
  options_.sampling.Fill(request.mutable_sampling());
  v1::SamplingParams& sampling = *request.mutable_sampling();
  if (!sampling.has_max_tokens()) {
    sampling.set_max_tokens(std::max(kMaxTokens, sampling.min_tokens()));
    sampling.set_limit_to_context(true);  // nobody asked for so many
  }
  request.mutable_session()->set_session_id(id_);
  request.mutable_session()->set_durability(options_.durability);
  request.mutable_session()->set_commit_on_cancel(true);
  const bool escaped = line.starts_with("//");
  auto contents = Ask(escaped ? line.substr(1) : line, &request);
  if (!contents.ok()) return contents.status();
  if (escaped) contents->front().left_out = 1;
  const absl::Status status = Settled([&] { return Stream(request); });
  std::string message(status.message());
  if (!chat::CountInMessage(*contents, &message)) return status;
  return {status.code(), message};
}

absl::StatusOr<std::vector<chat::Place>> Chat::Ask(const std::string& line,
                                                   v1::GenerateRequest* request) const {
  if (line.empty()) {
    if (options_.model) chat::GoOn(options_.model->chat_template(), request);
    return std::vector<chat::Place>();
  }
  if (!options_.model) {
    request->set_text(line + options_.suffix);
    return std::vector<chat::Place>{{.begin = 0, .end = line.size()}};
  }
  const chat::Message message{.role = "user", .content = line};
  return chat::Ask(*options_.model, {&message, 1}, request);
}

absl::Status Chat::Stream(const v1::GenerateRequest& request) {
  Reading reading(globals_, request);
  Output output(globals_.json ? Output::Printed::kNothing : Output::Printed::kText);
  const auto stream = globals_.client->Generate(request, globals_.Call());
  absl::Status status;
  {  // not to the end of the line: who sees that may press Ctrl-C
    const Interrupt::Guard guard(*globals_.interrupt, [&] { stream->Cancel(); });
    status = output.Add(*stream, [&] { reading.Done(); });
  }
  const bool interrupted = absl::IsCancelled(status) && globals_.interrupt->happened();
  if (!status.ok() && !interrupted) return status;
  interrupted_ = interrupted;
  if (globals_.json) {
    if (interrupted) EndTerminalLine();
    nlohmann::json json = output.ToJson();
    json.erase("samples");  // there is one, and its fields stand beside
    if (interrupted) json["finish_reason"] = "cancelled";
    PrintLine(JsonLine(json.dump()));
  } else {
    PrintLine("");
  }
  return absl::OkStatus();
}

absl::Status Chat::Settled(const std::function<absl::Status()>& call) {
  const absl::Time patience = absl::Now() + kSettleTime;
  absl::Status status = call();
  while (interrupted_ && absl::IsAborted(status) && absl::Now() < patience) {
    absl::SleepFor(kSettlePause);
    status = call();
  }
  return status;
}

absl::Status Chat::Command(const std::string& name, const std::string& argument) {
  client::Sessions& sessions = globals_.client->sessions();
  return Settled([&]() -> absl::Status {
    if (name == "/fork") return Fork(argument);
    if (name == "/mark") {
      v1::MarkSessionRequest request;
      request.mutable_session()->set_session_id(id_);
      request.set_name(argument);
      return Report("mark", sessions.Mark(request, globals_.Call()));
    }
    if (name == "/rewind") {
      v1::RewindSessionRequest request;
      request.mutable_session()->set_session_id(id_);
      request.set_mark(argument);
      return Report("rewind", sessions.Rewind(request, globals_.Call()));
    }
    if (name == "/save") {
      v1::SaveSessionRequest request;
      request.mutable_session()->set_session_id(id_);
      return Report("save", sessions.Save(request, globals_.Call()));
    }
    if (name == "/show") {
      v1::GetSessionRequest request;
      request.set_session_id(id_);
      const auto response = sessions.Get(request, globals_.Call());
      if (!response.ok()) return response.status();
      if (globals_.json) {
        PrintLine(JsonLine(ToJson(response->session()).dump()));
      } else {
        std::cerr << Text(response->session());
      }
      return absl::OkStatus();
    }
    std::cerr << kHelp;  // of /help
    return absl::OkStatus();
  });
}

absl::Status Chat::Fork(const std::string& label) {
  v1::ForkSessionRequest request;
  request.mutable_session()->set_session_id(id_);
  request.set_label(label);
  const auto forks = globals_.client->sessions().Fork(request, globals_.Call());
  if (!forks.ok()) return forks.status();
  if (forks->empty()) return absl::InternalError("the server answered without a fork");
  id_ = forks->front().id();
  if (globals_.json) {
    PrintLine(JsonLine(ToJson(forks->front()).dump()));
    if (!FlushStdout().ok()) TryDelete(globals_, id_);  // nobody was told of it
  } else {
    std::cerr << "now in session " << id_ << "\n";
  }
  return absl::OkStatus();
}

absl::Status Chat::Report(const char* command,
                          const absl::StatusOr<v1::SessionPosition>& position) {
  if (!position.ok()) return position.status();
  if (globals_.json) {
    nlohmann::json json = ToJson(*position);
    json["command"] = command;
    PrintLine(JsonLine(json.dump()));
  } else {
    std::cerr << Text(*position) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace tvq::cli
