#include "server/rpc/listen/waiting.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstddef>

namespace tvq {
namespace {

// What clients of gRPC send before they have heard anything is less, some 200 bytes, except for
// long requests.
constexpr int kBeginning = 4096;

}  // namespace

Admission::Load LoadOf(int fd) {
  int bytes = 0;
  const bool heavy = ioctl(fd, FIONREAD, &bytes) == 0 && bytes > kBeginning;
  return heavy ? Admission::Load::kHeavy : Admission::Load::kLight;
}

std::vector<Waiting::Client>::iterator Waiting::Line::Next() {
  const auto light = std::ranges::find_if(clients, [](Client& client) {
    // It is not read, so that it does not become less.
    if (client.load == Admission::Load::kLight) client.load = LoadOf(client.fd);
    return client.load == Admission::Load::kLight;
  });
  return light == clients.end() ? clients.begin() : light;
}

void Waiting::Add(int fd, const std::string& network) {
  auto line = std::ranges::find(lines_, network, &Line::network);
  if (line == lines_.end()) line = lines_.insert(line, {.network = network, .clients = {}});
  line->clients.push_back({.fd = fd});
}

void Waiting::Remove(int fd) {
  for (Line& line : lines_) {
    std::erase_if(line.clients, [fd](const Client& client) { return client.fd == fd; });
  }
  std::erase_if(lines_, [](const Line& line) { return line.clients.empty(); });
}

std::vector<int> Waiting::Enter(Time now) {
  std::vector<int> entered;
  if (now < next_) return entered;
  for (const auto load : {Admission::Load::kLight, Admission::Load::kHeavy}) {
    for (size_t refused = 0; refused < lines_.size() && admission_->IsOpen(now);) {
      lines_.splice(lines_.end(), lines_, lines_.begin());
      Line& line = lines_.back();
      const auto next = line.Next();
      if (next->load != load || !admission_->Enter(line.network, load, now)) {
        ++refused;
        continue;
      }
      refused = 0;
      entered.push_back(next->fd);
      line.clients.erase(next);
      if (line.clients.empty()) lines_.pop_back();
    }
  }
  if (!lines_.empty()) next_ = now + kPeriod;
  return entered;
}

}  // namespace tvq
