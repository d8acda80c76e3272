#include "base/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <system_error>
#include <type_traits>

#include "base/flag_errors.h"
#include "base/output_file.h"

namespace tvq::flags {
namespace {

constexpr std::array<std::string_view, 7> kNumbers = {"INT",      "UINT",    "FLOAT",  "BYTES",
                                                      "FRACTION", "SECONDS", "VERSION"};

// Call it when all options are there.
void RefuseEmptyNumbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    // What it is checked for stands behind a colon.
    const std::string described = option->get_type_name();
    const std::string_view type = std::string_view(described).substr(0, described.find(':'));
    if (std::find(kNumbers.begin(), kNumbers.end(), type) == kNumbers.end()) continue;
    // A transformation only in that it comes before the checks.
    option->transform(CLI::Validator(
        [](std::string& text) { return text.empty() ? "it is empty, must be a number" : ""; }, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) RefuseEmptyNumbers(*command);
}

constexpr char kOptions[] = "Options";  // CLI11's name for those without a group of their own

// With a subcommand's options it shows those of the commands above that may follow it.
class HelpFormatter : public CLI::Formatter {
 public:
  // Behind the options. Of a command that is only named among others, `mode` is another.
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override {
    std::string text;
    const CLI::App* above = mode == CLI::AppFormatMode::Normal ? app : nullptr;
    while (above != nullptr && above->get_fallthrough() && above->get_parent() != nullptr) {
      above = above->get_parent();
      for (const std::string& group : above->get_groups()) {
        const auto options = above->get_options([&](const CLI::Option* option) {
          return option->get_group() == group && option->nonpositional();
        });
        if (group != kOptions && !options.empty()) text += "\n" + make_group(group, false, options);
      }
    }
    return text + CLI::Formatter::make_subcommands(app, mode);
  }
};

template <typename T>
struct Element {
  using Type = T;
};
template <typename T>
struct Element<std::optional<T>> {
  using Type = T;
};
template <typename T>
struct Element<std::vector<T>> {
  using Type = T;
};

// Reads a whole number in decimal digits, and writes it to `text` without blanks around it or a +
// before it. CLI11 alone would read a number that is too large as the largest one, -1 as the
// largest one, and a number that begins with 0 as octal. Returns what is wrong.
template <typename T>
std::string TakeWhole(std::string& text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
  text = text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
  T number = 0;
  const char* const last = text.data() + text.size();
  const char* const first = text.data() + (text.starts_with("+") ? 1 : 0);
  const auto [end, error] = std::from_chars(first, last, number);
  if (error == std::errc::result_out_of_range) {
    return text + " is too " +
           (text.starts_with('-')
                ? "small (at least " + std::to_string(std::numeric_limits<T>::min())
                : "large (at most " + std::to_string(std::numeric_limits<T>::max())) +
           ")";
  }
  if (error == std::errc() && end == last) {
    text = std::to_string(number);
    return "";
  }
  return text + " is no whole number" + (std::is_unsigned_v<T> ? " from 0 on" : "");
}

// The same of a number that may be as small as int64's and as large as uint64's.
std::string TakeBits(std::string& text) {
  const std::string wrong = TakeWhole<int64_t>(text);
  const bool has_digits_alone = text.find_first_not_of("+0123456789") == std::string::npos;
  if (!wrong.empty()) return has_digits_alone ? TakeWhole<uint64_t>(text) : wrong;
  if (text.starts_with('-')) text = std::to_string(static_cast<uint64_t>(std::stoll(text)));
  return "";
}

template <typename T>
std::string Shown(T number) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), end};
}

// What is wrong with a number.
template <typename T>
std::string OutOfRange(const std::string& text, T least, T most) {
  T number{};
  if (!CLI::detail::lexical_cast(text, number)) return text + " is no number";
  if (number >= least && number <= most) return "";
  return text + " is out of range, must be from " + Shown(least) + " to " + Shown(most);
}

Complaint NoneOf(const std::vector<std::string>& values) {
  return [values](const std::string& text) {
    if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
    return text + " is none of " + CLI::detail::join(values, ", ");
  };
}

// Of --NAME=TEXT, or of a variable.
std::string ProblemWithSwitch(const std::string& text) {
  bool ignored = false;
  return CLI::detail::lexical_cast(text, ignored) ? "" : text + " is neither true nor false";
}

// CLI11 complains by an exception.
bool TakeSize(const CLI::AsSizeValue& sizes, std::string& text) {
  try {
    return sizes(text).empty();
  } catch (const CLI::ValidationError&) {
    return false;
  }
}

// "--max-num-seqs" -> "TVQ_MAX_NUM_SEQS".
std::string EnvironmentName(std::string_view flag) {
  std::string name = "TVQ_";
  for (const char c : flag.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace

Option Option::TypeName(const std::string& name) const { return Option(option_->type_name(name)); }
Option Option::Group(const std::string& heading) const { return Option(option_->group(heading)); }
Option Option::ShowDefault() const { return Option(option_->capture_default_str()); }
Option Option::ShowDefault(double value) const {
  return Option(option_->default_str(CLI::detail::to_string(value)));
}

Option Option::Environment(const std::string& variable) const {
  return Option(option_->envname(variable));
}
Option Option::Environment() const { return Environment(EnvironmentName(option_->get_name())); }

Option Option::Required() const { return Option(option_->required()); }
Option Option::Needs(Option other) const { return Option(option_->needs(other.option_)); }
Option Option::Excludes(Option other) const { return Option(option_->excludes(other.option_)); }
Option Option::SplitAt(char delimiter) const { return Option(option_->delimiter(delimiter)); }
Option Option::OneValueEach() const { return Option(option_->allow_extra_args(false)); }
Option Option::OneValue() const { return Option(option_->expected(1)); }

template <typename T>
Option Option::Within(T least, T most, const std::string& description) const {
  return Check([=](const std::string& text) { return OutOfRange(text, least, most); },
               CLI::Range(least, most, description).get_description());
}
template Option Option::Within(int, int, const std::string&) const;
template Option Option::Within(int64_t, int64_t, const std::string&) const;
template Option Option::Within(size_t, size_t, const std::string&) const;
template Option Option::Within(float, float, const std::string&) const;
template Option Option::Within(double, double, const std::string&) const;

Option Option::NotNegative() const { return Within(int64_t{0}, int64_t{1} << 60, "NONNEGATIVE"); }
Option Option::NotEmpty(const std::string& what) const {
  return Check([must = what.empty() ? what : ", must be " + what](const std::string& text) {
    return text.empty() ? "it is empty" + must : "";
  });
}
Option Option::OneOf(const std::vector<std::string>& values) const {
  return Check(NoneOf(values), CLI::IsMember(values).get_description());
}
Option Option::OneOfUnnamed(const std::vector<std::string>& values) const {
  return Check(NoneOf(values));
}
Option Option::Check(const Complaint& complaint, const std::string& description) const {
  return Option(option_->check(complaint, description));
}

template <typename T>
Option Command::Add(const std::string& name, T& value, const std::string& help) const {
  CLI::Option* const option = app_->add_option(name, value, help);
  using Number = typename Element<T>::Type;
  if constexpr (std::is_integral_v<Number>) {
    // A transformation only in that it comes before the checks.
    option->transform(
        CLI::Validator([](std::string& text) { return TakeWhole<Number>(text); }, ""));
  }
  return Option(option);
}
template <typename T>
Option Command::AddSizeSetting(const std::string& name, T& value, const std::string& help) const {
  const Option option = AddSetting(name, value, help);
  const CLI::AsSizeValue sizes(/*kb_is_1000=*/false);
  option.option_->transform(CLI::Validator(
      [sizes](std::string& text) {
        const std::string given = text;
        const size_t digits = text.find_first_not_of('0');  // CLI11 takes 010 for an octal number
        if (digits != std::string::npos && digits > 0) text.erase(0, digits - 1);
        if (text.size() > 1 && text[0] == '0' && text[1] >= '1' && text[1] <= '9') text.erase(0, 1);
        const bool is_size = !text.starts_with("-") && TakeSize(sizes, text);
        return is_size ? "" : given + " is no number of bytes, such as 1000000, 512MB or 2GB";
      },
      sizes.get_description()));
  return option.TypeName("BYTES");
}
template <typename T>
Option Command::AddFunction(const std::string& name, const std::function<void(const T&)>& set,
                            const std::string& help) const {
  return Option(app_->add_option_function<T>(name, set, help));
}

template Option Command::Add(const std::string&, std::string&, const std::string&) const;
template Option Command::Add(const std::string&, int32_t&, const std::string&) const;
template Option Command::Add(const std::string&, int64_t&, const std::string&) const;
template Option Command::Add(const std::string&, uint64_t&, const std::string&) const;
template Option Command::Add(const std::string&, float&, const std::string&) const;
template Option Command::Add(const std::string&, double&, const std::string&) const;
template Option Command::Add(const std::string&, std::optional<std::string>&,
                             const std::string&) const;
template Option Command::Add(const std::string&, std::optional<int32_t>&, const std::string&) const;
template Option Command::Add(const std::string&, std::optional<int64_t>&, const std::string&) const;
template Option Command::Add(const std::string&, std::optional<uint64_t>&,
                             const std::string&) const;
template Option Command::Add(const std::string&, std::optional<float>&, const std::string&) const;
template Option Command::Add(const std::string&, std::optional<double>&, const std::string&) const;
template Option Command::Add(const std::string&, std::vector<std::string>&,
                             const std::string&) const;
template Option Command::Add(const std::string&, std::vector<int32_t>&, const std::string&) const;
template Option Command::Add(const std::string&, std::vector<int64_t>&, const std::string&) const;
template Option Command::Add(const std::string&, std::vector<float>&, const std::string&) const;
template Option Command::AddSizeSetting(const std::string&, int64_t&, const std::string&) const;
template Option Command::AddSizeSetting(const std::string&, uint64_t&, const std::string&) const;
template Option Command::AddFunction(const std::string&, const std::function<void(const double&)>&,
                                     const std::string&) const;
template Option Command::AddFunction(const std::string&,
                                     const std::function<void(const std::string&)>&,
                                     const std::string&) const;

Option Command::AddBits(const std::string& name, std::optional<uint64_t>& value,
                        const std::string& help) const {
  CLI::Option* const option = app_->add_option(name, value, help);
  // A transformation only in that it comes before the checks.
  option->transform(CLI::Validator(TakeBits, ""));
  return Option(option->type_name("INT"));
}

Option Command::AddFlag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag(name, value, help)).Check(ProblemWithSwitch);
}
Option Command::AddFlag(const std::string& name, std::function<void()> set,
                        const std::string& help) const {
  return Option(app_->add_flag_callback(name, std::move(set), help));
}
Option Command::AddSwitchSetting(const std::string& name, bool& value,
                                 const std::string& help) const {
  return Option(app_->add_flag(name + ",!--no-" + name.substr(2), value, help))
      .Check(ProblemWithSwitch)
      .Environment()
      .ShowDefault();
}

void Command::Heading(const std::string& heading) const { app_->option_defaults()->group(heading); }

Command Command::AddChoice(const std::string& heading, const std::string& help) const {
  CLI::Option_group* const group = app_->add_option_group(heading, help);
  group->require_option(1);
  return Command(group, hints_);
}

Option Command::Find(const std::string& name) const { return Option(app_->get_option(name)); }

std::vector<std::pair<std::string, std::string>> Command::Given() const {
  std::vector<std::pair<std::string, std::string>> given;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() == 0) continue;
    given.emplace_back(option->get_name().substr(2), CLI::detail::join(option->results()));
  }
  return given;
}

Command Command::AddCommand(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help), hints_);
}
void Command::InsteadOfArguments(const std::string& hint) const { (*hints_)[app_] = hint; }
void Command::RequireCommand() const { app_->require_subcommand(1); }
void Command::OptionsMayFollow() const { app_->fallthrough(); }
void Command::Footer(const std::string& text) const { app_->footer(text); }
void Command::OnParsed(std::function<void()> run) const { app_->callback(std::move(run)); }
bool Command::parsed() const { return app_->parsed(); }

Program::Program(const std::string& description, const std::string& name)
    : Command(nullptr, &owned_hints_), owned_(std::make_unique<CLI::App>(description, name)) {
  app_ = owned_.get();
  app_->formatter(std::make_shared<HelpFormatter>());
}
Program::~Program() = default;

void Program::Version(const std::string& version) const {
  app_->set_version_flag("--version", version);
}

void Program::AddHelp() {
  help_ = AddCommand("help", "What a command does, and its options");
  help_->Add("command", helped_, "Such as: session chat; without it: all there is").TypeName("");
}

std::optional<int> Program::Parse(int argc, const char* const* argv) const {
  RefuseEmptyNumbers(*app_);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // after --help or --version
      app_->exit(e);
      return Told();
    }
    std::cerr << CommandLineError(app_, e, {argv, argv + argc}, *hints_);
    return kUsageError;
  }
  if (help_ && help_->parsed()) return Help();
  return std::nullopt;
}

int Program::Help() const {
  const CLI::App* command = app_;
  std::string name = app_->get_name();
  for (const std::string& word : helped_) {
    const std::vector<const CLI::App*> commands = CommandsOf(command);
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* one) { return one->get_name() == word; });
    if (found == commands.end()) {
      std::cerr << UnknownCommandError(command, word, *hints_);
      return kUsageError;
    }
    command = *found;
    name += " " + word;
  }
  std::cout << command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
  return Told();
}

int Program::Told() const {
  const absl::Status written = FlushStdout();
  if (!written.ok()) std::cerr << app_->get_name() << ": " << written.message() << "\n";
  return written.ok() ? 0 : kUsageError;
}

int Program::Lacks(const std::string& what) const {
  std::cerr << CommandLineError(app_, CLI::RequiredError(what), {}, *hints_);
  return kUsageError;
}

}  // namespace tvq::flags
