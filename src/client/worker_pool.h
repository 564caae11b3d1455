// Threads for asynchronous operations, started when first needed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace verbena::client {

class WorkerPool {
 public:
  explicit WorkerPool(unsigned threads_max);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  void post(std::function<void()> work);
  // Waits for all posted work, including work that it posts itself, and ends the threads. May be called by one of them.
  void stop();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  bool add_thread();
  std::shared_ptr<State> state_;
  std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  unsigned threads_max_;
};

}  // namespace verbena::client
