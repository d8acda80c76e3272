#include "client/cli/line/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace tvq::cli {
namespace {

constexpr size_t kHistoryLines = 10'000;

// Has the terminal put these two around what is pasted, or no more.
constexpr std::string_view kBracket = "\033[?2004h", kBracketNoMore = "\033[?2004l";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// Keys that libedit does not know, or that do something else there than in shells.
constexpr std::array<std::pair<const wchar_t*, const wchar_t*>, 18> kKeys = {{
    {L"\\e[200~", L"tvq-paste"},
    {L"^Z", L"tvq-suspend"},
    {L"^R", L"em-inc-search-prev"},
    {L"^W", L"ed-delete-prev-word"},
    {L"^U", L"vi-kill-line-prev"},
    {L"\\e[H", L"ed-move-to-beg"},
    {L"\\eOH", L"ed-move-to-beg"},
    {L"\\e[1~", L"ed-move-to-beg"},
    {L"\\e[F", L"ed-move-to-end"},
    {L"\\eOF", L"ed-move-to-end"},
    {L"\\e[4~", L"ed-move-to-end"},
    {L"\\e[3~", L"ed-delete-next-char"},
    {L"\\e[1;5C", L"em-next-word"},
    {L"\\e[1;5D", L"ed-prev-word"},
    {L"\\e[1;3C", L"em-next-word"},
    {L"\\e[1;3D", L"ed-prev-word"},
    {L"\\e[A", L"ed-prev-history"},
    {L"\\e[B", L"ed-next-history"},
}};

std::wstring ToWide(std::string_view text) {
  std::wstring wide;
  while (!text.empty()) {
    const Utf8Prefix next = ScanUtf8(text);
    const size_t size = std::max<size_t>(next.size, 1);
    wide += static_cast<wchar_t>(
        CodePoint(next.kind == Utf8Prefix::kCharacter ? text.substr(0, size) : kReplacement));
    text.remove_prefix(std::min(size, text.size()));
  }
  return wide;
}

void AppendUtf8(wchar_t wide, std::string* text) {
  const auto code = std::bit_cast<uint32_t>(wide);
  const auto put = [&](uint32_t byte) { *text += static_cast<char>(byte); };
  const auto put_rest = [&](int shift) { put(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put_rest(0);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0 | code >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

std::string ToUtf8(std::wstring_view wide) {
  std::string text;
  for (const wchar_t one : wide) AppendUtf8(one, &text);
  return text;
}

// Without keys. Terminals send a carriage return for a line feed.
std::wstring Pasted(std::wstring_view sent) {
  std::wstring text;
  for (size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] == L'\r') {
      text += L'\n';
      if (i + 1 < sent.size() && sent[i + 1] == L'\n') ++i;
    } else if (sent[i] == L'\n' || sent[i] == L'\t' || (sent[i] >= L' ' && sent[i] != 0x7F)) {
      text += sent[i];
    }
  }
  return text;
}

class Editor final : public LineEditor {
 public:
  Editor(std::FILE* out, int woken) : out_(out), woken_(woken) {
    tcgetattr(STDIN_FILENO, &before_);
    edit_ = el_init("tvq", stdin, out_, out_);
    history_ = history_winit();
    HistEventW event;
    history_w(history_, &event, H_SETSIZE, static_cast<int>(kHistoryLines));
    history_w(history_, &event, H_SETUNIQUE, 1);
    el_wset(edit_, EL_CLIENTDATA, this);
    el_wset(edit_, EL_EDITOR, L"emacs");
    el_wset(edit_, EL_HIST, history_w, history_);
    el_wset(edit_, EL_PROMPT, &Editor::Prompt);
    el_wset(edit_, EL_GETCFN, &Editor::ReadCharacter);
    el_wset(edit_, EL_ADDFN, L"tvq-paste", L"Insert what is pasted", &Editor::Paste);
    el_wset(edit_, EL_ADDFN, L"tvq-suspend", L"Stop the process", &Editor::Suspend);
    for (const auto& [key, command] : kKeys) el_wset(edit_, EL_BIND, key, command, nullptr);
  }

  ~Editor() override {
    el_end(edit_);
    history_wend(history_);
    std::fclose(out_);
    close(woken_);
  }

  Outcome Read(const std::string& prompt, std::string* line) override {
    prompt_ = ToWide(prompt);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(woken_, &count, sizeof(count));
    outcome_ = Outcome::kEnd;
    MayHaveResized();
    reading_ = true;
    Prepare();  // before the prompt: who sees it may press any key
    int size = 0;
    const wchar_t* const wide = el_wgets(edit_, &size);
    if (wide == nullptr || size <= 0) {
      const LineInfoW* const info = el_wline(edit_);
      line->assign(ToUtf8({info->buffer, static_cast<size_t>(info->lastchar - info->buffer)}));
      Put(outcome_ == Outcome::kInterrupted ? "^C\n" : "\n");
    } else {
      outcome_ = Outcome::kLine;
      line->assign(ToUtf8({wide, static_cast<size_t>(size)}));
      if (line->ends_with('\n')) line->pop_back();
    }
    Put(kBracketNoMore);
    reading_ = false;
    return outcome_;
  }

  void Remember(const std::string& line) override {
    HistEventW event;
    history_w(history_, &event, H_ENTER, ToWide(line).c_str());
  }

  void Interrupt() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(woken_, &one, sizeof(one));
  }

  void Restore() override {
    if (!reading_) return;
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    // Not through stdio, which another thread may hold.
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, kBracketNoMore.data(), kBracketNoMore.size());
  }

 private:
  static Editor& Of(EditLine* edit) {
    void* editor = nullptr;
    el_wget(edit, EL_CLIENTDATA, &editor);
    return *static_cast<Editor*>(editor);
  }

  static wchar_t* Prompt(EditLine* edit) { return Of(edit).prompt_.data(); }

  // One character; 0 at the end, -1 at an interrupt.
  static int ReadCharacter(EditLine* edit, wchar_t* wide) {
    Editor& editor = Of(edit);
    std::string bytes;
    while (true) {
      std::array<pollfd, 2> files = {{{STDIN_FILENO, POLLIN, 0}, {editor.woken_, POLLIN, 0}}};
      if (poll(files.data(), files.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return -1;
      }
      if (files[1].revents != 0) {
        editor.outcome_ = Outcome::kInterrupted;
        errno = EINTR;
        return -1;
      }
      editor.MayHaveResized();
      char byte = 0;
      const ssize_t got = read(STDIN_FILENO, &byte, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return static_cast<int>(got);
      bytes += byte;
      const Utf8Prefix prefix = ScanUtf8(bytes);
      if (prefix.kind == Utf8Prefix::kIncomplete) continue;
      const bool is_character = prefix.kind == Utf8Prefix::kCharacter;
      *wide =
          static_cast<wchar_t>(CodePoint(is_character ? std::string_view(bytes) : kReplacement));
      return 1;
    }
  }

  static unsigned char Paste(EditLine* edit, wint_t /*key*/) {
    std::wstring sent;
    while (!sent.ends_with(kPasteEnd)) {
      wchar_t next = 0;
      if (el_wgetc(edit, &next) != 1) return CC_EOF;
      sent += next;
    }
    sent.resize(sent.size() - kPasteEnd.size());
    const std::wstring text = Pasted(sent);
    if (!text.empty() && el_winsertstr(edit, text.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

  static unsigned char Suspend(EditLine* edit, wint_t /*key*/) {
    Editor& editor = Of(edit);
    editor.Put(kBracketNoMore);
    el_wset(edit, EL_PREP_TERM, 0);
    editor.Put("\n");
    raise(SIGTSTP);  // and here it goes on
    editor.Prepare();
    return CC_REDISPLAY;
  }

  // Makes the terminal the editor's.
  void Prepare() {
    el_wset(edit_, EL_PREP_TERM, 1);
    termios now{};
    if (tcgetattr(STDIN_FILENO, &now) == 0) {
      now.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR);  // what is pasted comes as it is
      now.c_cc[VSUSP] = _POSIX_VDISABLE;                     // Suspend does it
      tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
    }
    Put(kBracket);
  }

  void Put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }

  void MayHaveResized() {
    winsize now{};
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &now) != 0) return;
    if (now.ws_row == size_.ws_row && now.ws_col == size_.ws_col) return;
    size_ = now;
    el_resize(edit_);
  }

  std::FILE* const out_;
  const int woken_;  // by Interrupt
  termios before_{};
  winsize size_{};
  EditLine* edit_;
  HistoryW* history_;
  std::wstring prompt_;
  Outcome outcome_ = Outcome::kEnd;
  std::atomic<bool> reading_ = false;
};

}  // namespace

std::unique_ptr<LineEditor> LineEditor::Make() {
  const char* const term = std::getenv("TERM");
  const bool knows_keys = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  if (!knows_keys || isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) return nullptr;
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
  const int descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  std::FILE* const out = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
  const int woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (out == nullptr || woken < 0) return nullptr;
  return std::make_unique<Editor>(out, woken);
}

}  // namespace tvq::cli
