// The command lines of the programs. CLI11 parses them; only flags.cc and flag_errors.cc see its
// header, which takes seconds to compile.
#ifndef TVQ_BASE_FLAGS_H_
#define TVQ_BASE_FLAGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tvq::flags {

// Says what is wrong with the text that an option was given; "" if nothing is.
using Complaint = std::function<std::string(const std::string&)>;

// An option of a command, or one of its arguments if its name has no dashes. This is a handle,
// which is valid as long as the program. Each method returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // What --help shows.
  Option TypeName(const std::string& name) const;
  Option Group(const std::string& heading) const;
  Option ShowDefault() const;  // the value that the variable has now
  Option ShowDefault(double value) const;

  // The environment variable that gives its value where the command line does not.
  Option Environment(const std::string& variable) const;
  Option Environment() const;  // TVQ_MAX_NUM_SEQS of --max-num-seqs

  // What a command line may hold.
  Option Required() const;
  Option Needs(Option other) const;
  Option Excludes(Option other) const;
  Option SplitAt(char delimiter) const;  // one text for a list
  Option OneValueEach() const;           // a list is made by repeating the option
  Option OneValue() const;               // a list has one value

  // What its value may be. A `description` is shown in --help.
  template <typename T>  // int, int64_t, size_t, float or double
  Option Within(T least, T most, const std::string& description = "") const;
  Option NotNegative() const;                           // an integer, at most 2^60
  Option NotEmpty(const std::string& what = "") const;  // `what` it must be: "an id"
  Option OneOf(const std::vector<std::string>& values) const;
  Option OneOfUnnamed(const std::vector<std::string>& values) const;  // --help does not list them
  Option Check(const Complaint& complaint, const std::string& description = "") const;

 private:
  friend class Command;
  CLI::Option* option_;
};

// A program's command line, or a subcommand's part of it. This is a handle, which is valid as long
// as the program. The variables that its options set must outlive the parsing.
class Command {
 public:
  // Of commands: what to tell of an argument that one does not expect.
  using Hints = std::map<const CLI::App*, std::string>;

  Command(CLI::App* app, Hints* hints) : app_(app), hints_(hints) {}

  // T: std::string, a number, either of them in a std::optional, or a std::vector of them.
  template <typename T>
  Option Add(const std::string& name, T& value, const std::string& help) const;
  // Calls `set` instead. T: std::string or double.
  template <typename T>
  Option AddFunction(const std::string& name, const std::function<void(const T&)>& set,
                     const std::string& help) const;
  // Without a value.
  Option AddFlag(const std::string& name, bool& value, const std::string& help) const;
  Option AddFlag(const std::string& name, std::function<void()> set, const std::string& help) const;

  // A number of 64 bits, with a sign or without: a negative one stands for its two's complement.
  Option AddBits(const std::string& name, std::optional<uint64_t>& value,
                 const std::string& help) const;

  // An option that the environment may give, too; the command line wins. --help shows its default.
  template <typename T>
  Option AddSetting(const std::string& name, T& value, const std::string& help) const {
    return Add(name, value, help).Environment().ShowDefault();
  }
  // The same in bytes, also as 512KB, 2GB (powers of 1024). T: int64_t or size_t.
  template <typename T>
  Option AddSizeSetting(const std::string& name, T& value, const std::string& help) const;
  // --NAME, --no-NAME, or either with =true or =false.
  Option AddSwitchSetting(const std::string& name, bool& value, const std::string& help) const;

  // Options that are added from now on stand under this heading in --help.
  void Heading(const std::string& heading) const;

  // Options of which one must be given, and only one; add them to what this returns.
  Command AddChoice(const std::string& heading, const std::string& help) const;

  Option Find(const std::string& name) const;  // an option that is there
  // The options that the command line or the environment gave: names without dashes, and values.
  std::vector<std::pair<std::string, std::string>> Given() const;

  Command AddCommand(const std::string& name, const std::string& help) const;
  // `hint` is shown for an argument that this command does not take: how to give it instead.
  void InsteadOfArguments(const std::string& hint) const;
  void RequireCommand() const;
  // Options of this command may follow a subcommand's, whose --help shows them, but for those
  // without a group of their own. Subcommands that are added later.
  void OptionsMayFollow() const;
  void Footer(const std::string& text) const;
  // Calls `run` when a command line with this command has been parsed.
  void OnParsed(std::function<void()> run) const;
  bool parsed() const;

 protected:
  CLI::App* app_;
  Hints* hints_;
};

// A program. Its options that are numbers refuse an empty text, which CLI11 takes for 0. They are
// known by the names of their types: CLI11's, BYTES, FRACTION, SECONDS and VERSION.
class Program : public Command {
 public:
  Program(const std::string& description, const std::string& name);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // --version.
  void Version(const std::string& version) const;
  // The subcommand `help`: `PROGRAM help COMMAND...` is `PROGRAM COMMAND... --help`.
  void AddHelp();

  // Nothing: the program goes on. Otherwise it has told on stdout or stderr what it was asked for
  // or what is wrong, and ends with this exit code: 0 after --help, kUsageError for a wrong command
  // line, and where stdout cannot be written.
  static constexpr int kUsageError = 2;
  std::optional<int> Parse(int argc, const char* const* argv) const;
  // Says that `what` is required; returns kUsageError.
  int Lacks(const std::string& what) const;

 private:
  int Help() const;
  // Ends what was printed to stdout; returns the exit code.
  int Told() const;

  Hints owned_hints_;
  std::unique_ptr<CLI::App> owned_;
  std::optional<Command> help_;      // the subcommand, if there is one
  std::vector<std::string> helped_;  // the words behind it
};

}  // namespace tvq::flags

#endif  // TVQ_BASE_FLAGS_H_
