#include "tests/server/sessions/redis_process.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace tvq {

RedisProcess::RedisProcess(std::vector<std::string> flags) : flags_(std::move(flags)) {
  // Short, for a socket's path has at most 107 bytes.
  std::string name = "/tmp/tvq-redis-XXXXXX";
  directory_ = mkdtemp(name.data());
  Start();
}

RedisProcess::~RedisProcess() {
  Kill();
  std::filesystem::remove_all(directory_);
}

void RedisProcess::Start() {
  std::vector<std::string> words = {
      "redis-server", "--port", "0",     "--unixsocket", socket(),    "--save",           "",
      "--appendonly", "no",     "--dir", directory_,     "--logfile", directory_ + "/log"};
  words.insert(words.end(), flags_.begin(), flags_.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error =
      posix_spawnp(&process_, "redis-server", nullptr, nullptr, arguments.data(), environ);
  ASSERT_EQ(error, 0) << "redis-server does not start; the package redis-server is needed";
  for (int i = 0; i < 3000; ++i) {
    const std::string pong = Cli("PING");
    if (pong.starts_with("PONG") || pong.starts_with("NOAUTH")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "redis-server does not answer";
}

void RedisProcess::Kill() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = 0;
}

void RedisProcess::Freeze() { kill(process_, SIGSTOP); }
void RedisProcess::Thaw() { kill(process_, SIGCONT); }

std::string RedisProcess::Cli(const std::string& command) const {
  FILE* pipe = popen(("redis-cli -s " + socket() + " " + command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  pclose(pipe);
  return output;
}

}  // namespace tvq
