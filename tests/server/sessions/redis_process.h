// A redis-server of a test's own.
#ifndef TVQ_TESTS_SERVER_SESSIONS_REDIS_PROCESS_H_
#define TVQ_TESTS_SERVER_SESSIONS_REDIS_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace tvq {

// Listens on a Unix socket in a temporary directory, keeps nothing on disk. Started by the
// constructor, ended and cleaned up by the destructor.
class RedisProcess {
 public:
  // `flags` as on redis-server's command line.
  explicit RedisProcess(std::vector<std::string> flags = {});
  ~RedisProcess();
  RedisProcess(const RedisProcess&) = delete;

  std::string url() const { return "unix://" + socket(); }
  std::string socket() const { return directory_ + "/redis.sock"; }

  void Start();  // returns when it answers
  void Kill();   // all data is lost
  void Freeze();
  void Thaw();

  // What `redis-cli` prints for a command.
  std::string Cli(const std::string& command) const;

 private:
  std::string directory_;
  const std::vector<std::string> flags_;
  pid_t process_ = 0;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_REDIS_PROCESS_H_
