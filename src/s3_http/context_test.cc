#include "s3_http/context.h"

#include <boost/asio/use_future.hpp>

#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

// Counts how often it is asked to drain, and can fail at it.
class DrainedSink final : public TextSink {
 public:
  Task<Result<void>> drained() override {
    ++asked;
    co_return outcome;
  }
  int asked = 0;
  Result<void> outcome;
};

Result<void> drain(memory::Sink& sink) {
  boost::asio::io_context io;
  auto future = boost::asio::co_spawn(io, sink.drained(), boost::asio::use_future);
  io.run();
  return future.get();
}

// A GET that reads ahead of a slow client asks for this when memory is scarce.
TEST(WatchedSink, DoesNotSwallowBackpressure) {
  DrainedSink inner;
  WatchedSink sink(inner);
  EXPECT_TRUE(drain(sink));
  EXPECT_EQ(inner.asked, 1);
  EXPECT_FALSE(sink.failed());
  inner.outcome = fail(Errc::closed, "the client is gone");
  EXPECT_FALSE(drain(sink));
  EXPECT_TRUE(sink.failed());
}

}  // namespace
}  // namespace verbena::s3::test
