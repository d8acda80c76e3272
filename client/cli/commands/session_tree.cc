#include "client/cli/commands/session_tree.h"

#include <cstddef>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/cli/io/terminal.h"

namespace tvq::cli {
namespace {

// What is said of a session behind the branches.
std::string Describe(const v1::Session& s, bool parent_is_gone) {
  std::string text = absl::StrCat(s.id(), "  position ", s.position(), ", version ", s.version());
  if (s.persisted_version() == 0) {
    absl::StrAppend(&text, ", not saved");
  } else if (s.persisted_version() < s.version()) {
    absl::StrAppend(&text, ", saved at version ", s.persisted_version());
  }
  if (!s.parent_id().empty()) {
    absl::StrAppend(&text, ", forked ");
    if (parent_is_gone) absl::StrAppend(&text, "from ", s.parent_id(), " ");
    absl::StrAppend(&text, "at version ", s.parent_version());
  }
  if (!s.label().empty()) absl::StrAppend(&text, "  \"", Shown(s.label()), "\"");
  for (const v1::SessionMark& mark : s.marks()) {
    absl::StrAppend(&text, "  [", Shown(mark.name()), " @", mark.position(), "]");
  }
  return text;
}

class Tree {
 public:
  explicit Tree(const std::vector<v1::Session>& sessions) : sessions_(sessions) {
    for (size_t i = 0; i < sessions.size(); ++i) index_[sessions[i].id()] = i;
    for (size_t i = 0; i < sessions.size(); ++i) children_[sessions[i].parent_id()].push_back(i);
  }

  std::string Draw() {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      if (!index_.contains(sessions_[i].parent_id())) Draw(i, "", "");
    }
    for (size_t i = 0; i < sessions_.size(); ++i) Draw(i, "", "");  // those of a circle
    return text_;
  }

  std::set<size_t> Below(const std::string& id) {
    if (const auto it = index_.find(id); it != index_.end()) Draw(it->second, "", "");
    return drawn_;
  }

 private:
  // `first` stands before the session's own line, `rest` before those below it.
  void Draw(size_t i, const std::string& first, const std::string& rest) {
    if (!drawn_.insert(i).second) return;
    const v1::Session& session = sessions_[i];
    absl::StrAppend(&text_, first, Describe(session, !index_.contains(session.parent_id())), "\n");
    const auto it = children_.find(session.id());
    if (session.id().empty() || it == children_.end()) return;
    for (const size_t child : it->second) {
      const bool last = child == it->second.back();
      Draw(child, absl::StrCat(rest, last ? "└─ " : "├─ "),
           absl::StrCat(rest, last ? "   " : "│  "));
    }
  }

  const std::vector<v1::Session>& sessions_;
  std::map<std::string, size_t> index_;                  // by id
  std::map<std::string, std::vector<size_t>> children_;  // by the parent's id
  std::set<size_t> drawn_;
  std::string text_;
};

}  // namespace

std::string DrawTree(const std::vector<v1::Session>& sessions) { return Tree(sessions).Draw(); }

std::vector<v1::Session> Subtree(const std::vector<v1::Session>& sessions, const std::string& id) {
  std::vector<v1::Session> below;
  for (const size_t i : Tree(sessions).Below(id)) below.push_back(sessions[i]);
  return below;
}

}  // namespace tvq::cli
