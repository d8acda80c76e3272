#include "server/rpc/listen/waiting.h"

#include <sys/ioctl.h>

namespace tvq {
namespace {

// What clients of gRPC send before they have heard anything is less, some 200 bytes, except for
// long requests.
constexpr int kBeginning = 4096;

Admission::Load LoadOf(int fd) {
  int bytes = 0;
  const bool heavy = ioctl(fd, FIONREAD, &bytes) == 0 && bytes > kBeginning;
  return heavy ? Admission::Load::kHeavy : Admission::Load::kLight;
}

}  // namespace

void Waiting::Remove(int fd) {
  std::erase_if(peers_, [fd](const Peer& peer) { return peer.fd == fd; });
}

std::vector<int> Waiting::Enter(Time now) {
  std::vector<int> entered;
  for (const auto load : {Admission::Load::kLight, Admission::Load::kHeavy}) {
    std::erase_if(peers_, [&](const Peer& peer) {
      if (LoadOf(peer.fd) != load || !admission_->Enter(peer.address, load, now)) return false;
      entered.push_back(peer.fd);
      return true;
    });
  }
  return entered;
}

}  // namespace tvq
