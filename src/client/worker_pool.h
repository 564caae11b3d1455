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
  // Runs what was posted, then joins. May be destroyed by one of its own threads.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  void post(std::function<void()> work);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
  std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  unsigned threads_max_;
};

}  // namespace verbena::client
