// For tests: calls that go on when the test says so.
#pragma once

#include "store/local/test_store.h"

namespace verbena::store::local {

// A call on a loop of its own, which goes on only when it is told to.
template <class T>
class Aside {
 public:
  explicit Aside(Task<T> task) : future_(boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future)) {
    go_on();
  }
  void go_on() {
    io_.restart();
    io_.poll();
  }
  T finish() {
    io_.restart();
    io_.run();
    return future_.get();
  }

 private:
  boost::asio::io_context& io_ = loop_that_stays();
  std::future<T> future_;
};

// A PUT through the index: it has a condition, which always holds.
inline Task<Result<ObjectInfo>> put_in_index(TestStore& t, std::string bucket, std::string key, std::string bytes) {
  VB_CO_ASSIGN(auto writer, co_await t.store->create(bucket, key, bytes.size()));
  VB_CO_TRY(co_await writer->append(t.chunk(bytes)));
  ObjectInfo info;
  info.size = bytes.size();
  info.etag = TestStore::etag_of(bytes);
  CommitConditions conditions;
  conditions.if_none_match = "another";
  co_return co_await writer->commit(std::move(info), std::move(conditions));
}

}  // namespace verbena::store::local
