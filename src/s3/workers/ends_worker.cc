#include "s3/workers/ends_worker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "base/several.h"
#include "s3/events/announce.h"
#include "s3/workers/damaged_keys.h"
#include "store/logic/damage.h"
#include "store/removal_grounds.h"

namespace verbena::s3 {
namespace {

constexpr std::chrono::seconds ends_pause_max{60};
constexpr size_t failures_max = 64;        // in one pass: then it is the store that fails, not a key
constexpr size_t bucket_failures_max = 8;  // then the pass leaves the rest of that bucket
constexpr std::chrono::minutes told_every{1};
constexpr std::chrono::hours damaged_again_after{1};  // an operator may have mended the row

metrics::Counter& ended_objects() {
  static auto& counter = metrics::counter("verbena_ended_objects_total", "Objects removed because their TTL was over");
  return counter;
}

}  // namespace

// Keys that the workers of a page share. Used on one executor.
struct EndsPass::Page {
  std::vector<store::EndedKey> keys{};
  size_t next = 0;
};

Task<bool> EndsPass::run() {
  std::optional<store::EndedKey> last;
  while (!stops() && failures_ < failures_max) {
    auto found = co_await index_.ended(options_.page_size, last ? &*last : nullptr);
    if (!found) {
      log::warn("ends: {}", describe(found.error()));
      co_return false;
    }
    if (found->empty()) break;
    last = found->back();
    const auto page = std::make_shared<Page>(Page{.keys = std::move(*found)});
    const auto work = [this, page] { return worker(page); };
    co_await run_several(std::min(options_.at_once, page->keys.size()), work);
    if (page->keys.size() < options_.page_size) break;
  }
  co_return failures_ < failures_max;
}

Task<> EndsPass::worker(std::shared_ptr<Page> page) {
  while (page->next < page->keys.size() && !stops() && failures_ < failures_max) {
    const store::EndedKey ended = std::move(page->keys[page->next++]);
    if (leaves(ended)) continue;
    const auto done = co_await remove(ended);
    if (!done) note_failure(ended, done.error());
  }
}

// What one bucket's removals wait for, as a queue of events that is full, must not keep others' objects.
bool EndsPass::leaves(const store::EndedKey& ended) const {
  if (!damaged_.empty() && damaged_.contains({ended.bucket_id, ended.key})) return true;
  const auto failed = failed_in_.find(ended.bucket_id);
  return failed != failed_in_.end() && failed->second >= bucket_failures_max;
}

void EndsPass::note_failure(const store::EndedKey& ended, const Error& error) {
  ++failed_in_[ended.bucket_id];
  if (error != Errc::slow_down) ++failures_;
  if (!trouble_.empty()) return;
  trouble_ = fmt::format("{}/{}: {}", ended.bucket, log::printable(ended.key), describe(error));
}

Task<Result<void>> EndsPass::remove(const store::EndedKey& ended) {
  if (ended.bucket.empty()) co_return co_await index_.forget_end(ended);
  store::RemoveRequest request;
  request.grounds = std::make_shared<const store::RemovalGrounds>(store::RemovalGrounds{
      .bucket_created_us = ended.bucket_created_us, .rules = nullptr, .of = store::RemovalGrounds::Of::ended});
  const Call no_caller;
  VB_CO_ASSIGN(request.conditions.announcement,
               co_await announce_now(service_, ended.bucket, no_caller, EventCause::expire, ended.key));
  const auto removed = co_await service_.store.remove(ended.bucket, ended.key, std::move(request));
  if (removed) ended_objects().add();
  if (removed || removed.error() == Errc::no_such_bucket) co_return Result<void>();
  // Renewed or replaced since the index was read, or an entry without an object.
  if (removed.error() == Errc::precondition_failed) co_return co_await index_.forget_end(ended);
  // Neither the bucket nor the store fails: a few such rows would keep the rest of both from being swept for good.
  if (store::is_damage(removed.error()) && damaged_.size() < damaged_ends_max) {
    damaged_.emplace(ended.bucket_id, ended.key);
    tell_damaged("ends", ended.bucket, ended.key);
    co_return Result<void>();
  }
  co_return std::unexpected(removed.error());
}

void EndsWorker::start() {
  ended_objects();  // told from the start on
  register_damaged_keys();
  boost::asio::co_spawn(io_, loop(), boost::asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

void EndsWorker::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  boost::asio::post(io_, [this] { timer_.cancel(); });
  thread_.join();
}

Task<> EndsWorker::loop() {
  std::chrono::seconds pause = options_.pause;
  while (!stop_) {
    timer_.expires_after(pause);
    // Checked again: stop() may have come before the timer was set.
    if (!stop_) (void)co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    if (stop_) break;
    if (const auto now = SteadyClock::now(); now >= forget_at_) {
      damaged_.clear();
      forget_at_ = now + damaged_again_after;
    }
    EndsPass pass(service_, index_, options_, stop_, damaged_);
    const bool well = co_await pass.run();
    if (const auto now = SteadyClock::now(); !pass.trouble().empty() && now >= tell_at_) {
      log::warn("ends: objects could not be removed, and are tried again; one of them is {}", pass.trouble());
      tell_at_ = now + told_every;
    }
    pause = well ? options_.pause : std::min(2 * pause, ends_pause_max);
  }
}

}  // namespace verbena::s3
