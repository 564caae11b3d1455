#include "s3/objects/body_digests.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>

#include "base/blocking.h"
#include "memory/hashes_along.h"

namespace verbena::s3 {
namespace {

// One pool for all cores. If its queue is full, the core computes the digests itself.
BlockingPool& helpers() {
  static BlockingPool pool(std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u), 256);
  return pool;
}

// Pieces that wait for a helper. Each has a job of the pool's; a late job finds no piece.
class Pieces {
 public:
  struct Piece {
    std::shared_ptr<DigestsAside> body;
    Bytes bytes;
  };
  static Pieces& waiting() {
    static Pieces pieces;
    return pieces;
  }
  void add(Piece piece) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(piece));
  }
  std::vector<Piece> take(size_t most) {
    const std::lock_guard lock(mutex_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(most, waiting_.size()));
    std::vector<Piece> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return taken;
  }
  // Takes back a piece of this body if no helper has it yet.
  bool take_back(const DigestsAside* body) {
    const std::lock_guard lock(mutex_);
    return std::erase_if(waiting_, [&](const Piece& piece) { return piece.body.get() == body; }) != 0;
  }

 private:
  std::mutex mutex_;
  std::deque<Piece> waiting_;
};

}  // namespace

void BodyDigests::want(Algorithm algorithm) {
  if (algorithm == Algorithm::md5) {
    want_md5();
    md5_is_checksum_ = true;
  } else if (!wants(algorithm)) {
    running_.emplace_back(algorithm);
  }
}

void BodyDigests::want_md5() {
  if (!running_md5_) running_md5_.emplace();
}

bool BodyDigests::wants(Algorithm algorithm) const {
  if (algorithm == Algorithm::md5) return running_md5_.has_value();
  return std::ranges::any_of(running_, [&](const Digest& digest) { return digest.algorithm() == algorithm; });
}

void BodyDigests::leave_md5_to(memory::Source& body) {
  auto* const hashes = dynamic_cast<memory::HashesAlong*>(&body);
  if (!running_md5_ || hashes == nullptr) return;
  hashes->hash_along(*running_md5_);
  md5_is_left_ = true;
}

void BodyDigests::leave_crc32c_to(const store::ObjectWriter& writer) {
  if (wants(Algorithm::crc32c) && writer.crc32c()) crc32c_left_to_ = &writer;
}

void BodyDigests::update(Bytes bytes) {
  update_all_but_md5(bytes);
  if (Md5* const md5 = running_md5()) md5->update(bytes);
}

void BodyDigests::update_all_but_md5(Bytes bytes) {
  for (Digest& digest : running_) {
    if (crc32c_left_to_ == nullptr || digest.algorithm() != Algorithm::crc32c) digest.update(bytes);
  }
}

void BodyDigests::finish() {
  if (running_md5_) md5_ = as_text(running_md5_->finish());
  running_md5_.reset();
  if (md5_is_checksum_) checksums_.push_back({Algorithm::md5, md5_, 0});
  for (Digest& digest : running_) {
    if (crc32c_left_to_ != nullptr && digest.algorithm() == Algorithm::crc32c)
      digest.set_crc(*crc32c_left_to_->crc32c());
  }
  for (Digest& digest : running_) checksums_.push_back({digest.algorithm(), digest.finish(), 0});
  running_.clear();
}

Task<void> DigestsAside::done() {
  while (busy_) (void)co_await idle_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

Task<void> DigestsAside::add(Bytes bytes) {
  co_await done();
  if (bytes.empty()) co_return;
  busy_ = true;
  Pieces::waiting().add({shared_from_this(), bytes});
  if (helpers().submit("body digest", digest_what_waits)) co_return;
  if (!Pieces::waiting().take_back(this)) co_return;
  digests.update(bytes);
  busy_ = false;
}

// Runs on a helper's thread.
void DigestsAside::digest_what_waits() {
  auto pieces = Pieces::waiting().take(Md5::lanes_max);
  std::vector<Md5::More> md5s;
  for (const auto& [body, bytes] : pieces) {
    body->digests.update_all_but_md5(bytes);
    if (Md5* md5 = body->digests.running_md5()) md5s.push_back({md5, bytes});
  }
  Md5::update_all(md5s);
  // The helper releases a body before its core is notified: its members belong to the core.
  for (auto& piece : pieces) {
    const auto executor = piece.body->idle_.get_executor();
    boost::asio::post(executor, [mine = std::move(piece.body)] {
      mine->busy_ = false;
      mine->idle_.cancel();
    });
  }
}

}  // namespace verbena::s3
