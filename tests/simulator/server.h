// One server of a world, and how its clients call it.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/blocking.h"
#include "memory/stream.h"
#include "memory/text_source.h"
#include "s3/workers/lifecycle_worker.h"
#include "s3_http/routing/router.h"
#include "simulator/world.h"

namespace verbena::simulator {

struct World::Server {
  explicit Server(size_t at) : number(at) {}
  const size_t number;
  std::unique_ptr<memory::Arena> arena = std::move(*memory::Arena::create(64 * MiB));
  // The store's threads may still be waking a client's loop when the client has its answer.
  std::deque<boost::asio::io_context> loops;
  BlockingPool pool{2, 1024};
  std::unique_ptr<store::Store> store;
  std::unique_ptr<s3::Service> service;
  std::unique_ptr<s3::Router> router;
  std::unique_ptr<s3::LifecycleWorker> lifecycle;
};

struct World::Reply {
  int status = 0;
  std::string code, body, version_id, etag, expires{};
  bool ok() const { return status >= 200 && status < 300; }
  std::string element(const std::string& name) const;  // the text of the first of that name
};

template <class T>
T run_on(boost::asio::io_context& loop, Task<T> task) {
  std::optional<T> result;
  boost::asio::co_spawn(loop, std::move(task), [&](std::exception_ptr, T value) { result = std::move(value); });
  loop.restart();
  loop.run();
  return std::move(*result);
}

s3::Call root_call();
void sleep_for(int64_t ns);

class TextSink final : public memory::Sink {
 public:
  Task<Result<void>> begin(uint64_t /*length*/) override {
    begun = true;
    co_return Result<void>();
  }
  Task<Result<void>> push(memory::Chunk chunk) override {
    text += as_text(chunk.bytes);
    co_return Result<void>();
  }
  Task<Result<void>> finish() override { co_return Result<void>(); }
  bool begun = false;
  std::string text;
};

}  // namespace verbena::simulator
