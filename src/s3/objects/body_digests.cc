#include "s3/objects/body_digests.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <thread>

#include "base/blocking.h"

namespace verbena::s3 {
namespace {

// Of the process: bodies of all cores share it. A full queue is no error, the core then digests by itself.
BlockingPool& helpers() {
  static BlockingPool pool(std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u), 256);
  return pool;
}

}  // namespace

void BodyDigests::want(Algorithm algorithm) {
  if (!wants(algorithm)) running_.emplace_back(algorithm);
}

bool BodyDigests::wants(Algorithm algorithm) const {
  return std::ranges::any_of(running_, [&](const Digest& digest) { return digest.algorithm() == algorithm; });
}

void BodyDigests::update(Bytes bytes) {
  for (Digest& digest : running_) digest.update(bytes);
}

void BodyDigests::finish() {
  for (Digest& digest : running_) {
    if (digest.algorithm() == Algorithm::md5) {
      md5_ = digest.finish();
    } else {
      checksums_.push_back({digest.algorithm(), digest.finish(), 0});
    }
  }
  running_.clear();
}

Task<void> DigestsAside::done() {
  while (busy_) (void)co_await idle_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

Task<void> DigestsAside::add(Bytes bytes) {
  co_await done();
  if (bytes.empty()) co_return;
  busy_ = true;
  // The helper lets go of this before the core hears: what it holds belongs to the core.
  auto job = [self = shared_from_this(), bytes]() mutable {
    self->digests.update(bytes);
    const auto executor = self->idle_.get_executor();
    boost::asio::post(executor, [mine = std::move(self)] {
      mine->busy_ = false;
      mine->idle_.cancel();
    });
  };
  if (helpers().submit("body digest", std::move(job))) co_return;
  digests.update(bytes);
  busy_ = false;
}

}  // namespace verbena::s3
