// Support for tests of the engine over RADOS alone, on the cluster that tests/rados starts.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "store/conformance/rados_rig.h"
#include "store/rados/engine.h"

namespace verbena::store::conformance {

class OnRados : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RadosRig::has_cluster()) GTEST_SKIP() << "no cluster: tests/rados/conformance_test.py starts one";
  }
  static std::string key(int i) { return "key/" + std::to_string(1000 + i); }
  // All keys of the bucket, read page by page.
  static std::vector<std::string> keys_of(Rig& t, int page) {
    std::vector<std::string> keys;
    ListRequest request;
    request.max_keys = page;
    for (bool more = true; more;) {
      auto listed = t.list("b", request);
      EXPECT_TRUE(listed);
      if (!listed) break;
      for (const auto& entry : listed->entries) keys.push_back(entry.key);
      more = listed->truncated;
      request.after = listed->next_after;
    }
    return keys;
  }
};

// A connection besides the store's own.
inline std::unique_ptr<rados::Cluster> connect(const rados::Options& options) {
  auto cluster = rados::Cluster::connect({.conf = options.conf,
                                          .user = options.user,
                                          .pool = options.pool,
                                          .index_pool = options.index_pool,
                                          .name_space = options.name_space});
  return cluster ? std::move(*cluster) : nullptr;
}

// Makes the index pool read-only for this connection while it lives, by selecting a snapshot.
class NoWrites {
 public:
  explicit NoWrites(rados::Cluster& cluster) : pool_(cluster.context(rados::Cluster::Pool::index)) {
    pool_.snap_set_read(1);
  }
  ~NoWrites() { pool_.snap_set_read(librados::SNAP_HEAD); }

 private:
  librados::IoCtx& pool_;
};

// An io_context that a test drives step by step.
class Steps {
 public:
  template <class T>
  std::future<T> begin(Task<T> task) {
    return boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
  }
  template <class T>
  T end(std::future<T> future) {
    while (!is_ready(future)) io.run_one();
    return future.get();
  }
  template <class T>
  T run(Task<T> task) {
    return end(begin(std::move(task)));
  }
  // Runs until nothing has happened for a while: everything waits for another process.
  void rest() {
    while (io.run_one_for(std::chrono::milliseconds(500)) != 0) {
    }
  }
  template <class T>
  static bool is_ready(const std::future<T>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  boost::asio::io_context io;

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io.get_executor()};
};

// Blocks the engine's own thread while it lives: no change is sent to the cluster.
class Stalled {
 public:
  explicit Stalled(rados::Engine& engine) {
    boost::asio::post(engine.io, [latch = latch_] { latch->wait(); });
  }
  ~Stalled() { latch_->count_down(); }

 private:
  std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
};

inline rados::Engine& parts_of(RadosRig& t) { return static_cast<rados::Engine&>(*t.store().context()); }

}  // namespace verbena::store::conformance
