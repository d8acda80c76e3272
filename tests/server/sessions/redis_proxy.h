// A connection to a Redis that can be cut at the worst moment.
#ifndef TVQ_TESTS_SERVER_SESSIONS_REDIS_PROXY_H_
#define TVQ_TESTS_SERVER_SESSIONS_REDIS_PROXY_H_

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tvq {

// Listens on a Unix socket and passes on what comes, both ways.
class RedisProxy {
 public:
  explicit RedisProxy(const std::string& redis_socket);
  ~RedisProxy();
  RedisProxy(const RedisProxy&) = delete;

  std::string url() const { return "unix://" + path_; }

  enum class Cut {
    kNever,
    kAnswer,   // the command gets through, its answer does not
    kCommand,  // the command waits for Deliver
  };
  // Cuts the connection of the next command that contains `text`.
  void CutAt(const std::string& text, Cut cut);
  // Whether new connections are closed at once.
  void Refuse(bool refuse);
  // Sends the command that was held back to Redis, as a socket's buffer may do long after the
  // sender has given up, and returns what Redis answers.
  std::string Deliver();
  int connections() const;  // so far

 private:
  void Listen();
  void Pass(int client);
  Cut Look(const std::string& bytes);

  const std::string redis_socket_;
  std::string path_;
  int listener_ = -1;
  std::thread thread_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::thread> passing_;
  std::vector<int> clients_;
  std::string cut_at_;
  Cut cut_ = Cut::kNever;
  bool refuse_ = false;
  int connections_ = 0;
  std::string held_back_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_REDIS_PROXY_H_
