#include "s3/objects/read_ahead.h"

#include <algorithm>

#include "base/clock.h"
#include "store/read_runs.h"

namespace verbena::s3 {
namespace {

constexpr std::chrono::milliseconds again_after{5};

// Owns the reader: it may outlive the request that started it.
Task<Result<memory::Chunk>> read_chunk(std::shared_ptr<store::ObjectReader> reader, uint64_t offset, size_t length,
                                       memory::Charge charge) {
  auto chunk = co_await reader->read(offset, length);
  if (chunk) chunk->attach(std::move(charge));
  co_return chunk;
}

Task<Result<memory::Chunk>> read_alone(std::shared_ptr<store::ObjectReader> reader, uint64_t offset, size_t length) {
  co_return co_await reader->read(offset, length);
}

// A chunk that does not begin at a block's start needs memory for the whole block.
size_t memory_for(uint64_t offset, uint64_t length) {
  return static_cast<size_t>(std::min<uint64_t>(offset % memory::Budget::unit + length, memory::Budget::chunk_max));
}

size_t at_most_a_chunk(uint64_t length) {
  return static_cast<size_t>(std::min<uint64_t>(length, store::ObjectReader::chunk_size_max));
}

}  // namespace

ReadAhead::ReadAhead(boost::asio::any_io_executor executor, memory::Arena& arena, std::string_view peer,
                     std::shared_ptr<store::ObjectReader> reader, uint64_t offset, uint64_t length, RequestTrace* trace)
    : executor_(std::move(executor)),
      reader_(std::move(reader)),
      run_bytes_(store::run_bytes_of(*reader_)),
      share_(arena, peer, length),
      wait_max_(arena.budget().limits().wait_max),
      rest_{offset, length},
      trace_(trace) {}

bool ReadAhead::in_memory(const Range& range) const { return !reader_->peek(range.offset, range.length).bytes.empty(); }

size_t ReadAhead::chunks_of_run() const {
  const uint64_t bytes = std::min(rest_.length, run_bytes_ - rest_.offset % run_bytes_);
  return static_cast<size_t>((bytes + store::ObjectReader::chunk_size_max - 1) / store::ObjectReader::chunk_size_max);
}

// Starts a whole run if there is memory, so that the engine fetches it in one call.
void ReadAhead::start() {
  const uint64_t two_runs = 2 * run_bytes_ / store::ObjectReader::chunk_size_max;
  const size_t depth = std::max<size_t>(depth_max, two_runs);
  while (rest_.length > 0) {
    const size_t chunks = chunks_of_run();
    if (pending_.size() + chunks > depth) return;
    for (size_t i = 0; i < chunks && rest_.length > 0; ++i) {
      if (!start_chunk()) return;
    }
  }
}

// Takes only memory that is free now: the next chunk must not wait behind later ones.
bool ReadAhead::start_chunk() {
  if (in_memory(rest_)) return false;
  const size_t offer = share_.offer();
  if (offer < memory::Budget::chunk_max && (offer < memory::Budget::chunk_max / 4 || !pending_.empty())) return false;
  auto charge = share_.try_take(std::max(memory_for(rest_.offset, rest_.length), memory::Budget::unit));
  if (!charge) return false;
  const size_t length = reader_->fit(rest_.offset, at_most_a_chunk(rest_.length), charge->bytes());
  pending_.push_back(
      {{rest_.offset, length}, {executor_, read_chunk(reader_, rest_.offset, length, std::move(*charge))}});
  rest_.skip(length);
  return true;
}

// Drops later reads, which are repeated later: their memory may be what the next chunk needs.
void ReadAhead::give_back() {
  if (pending_.empty()) return;
  const uint64_t from = pending_.front().range.offset;
  rest_ = {from, rest_.offset + rest_.length - from};
  pending_.clear();
}

Task<Result<memory::Chunk>> ReadAhead::next() {
  if (now_.length != 0) co_return co_await read_now();
  if (pending_.empty()) {
    now_ = {rest_.offset, reader_->fit(rest_.offset, at_most_a_chunk(rest_.length), memory::Budget::chunk_max)};
    rest_.skip(now_.length);
    co_return co_await read_now();
  }
  Ahead first = std::move(pending_.front());
  pending_.erase(pending_.begin());
  start();
  ScopedStage on_disk(trace_, Stage::disk);
  auto chunk = co_await first.read.wait();
  on_disk.end();
  if (chunk || chunk.error() != Errc::slow_down) co_return chunk;
  now_ = first.range;
  co_return co_await read_now();
}

Task<Result<memory::Chunk>> ReadAhead::read_now() {
  const Deadline end = deadline_in(wait_max_);
  size_t most = memory::Budget::chunk_max;
  for (;;) {
    const size_t wanted = std::max(std::min(memory_for(now_.offset, now_.length), most), memory::Budget::unit);
    ScopedStage for_memory(trace_, Stage::memory);
    VB_CO_ASSIGN(memory::Charge charge, co_await share_.take(wanted));
    for_memory.end();
    ScopedStage on_disk(trace_, Stage::disk);
    const size_t length = reader_->fit(now_.offset, at_most_a_chunk(now_.length), charge.bytes());
    Result<memory::Chunk> chunk = reader_->peek(now_.offset, length);
    if (chunk->bytes.empty() && (rest_.length == 0 || length != now_.length)) {
      chunk = co_await reader_->read(now_.offset, length);
    } else if (chunk->bytes.empty()) {
      Pending<memory::Chunk> first(executor_, read_alone(reader_, now_.offset, length));
      start();  // starts the reads behind it, so that the disk works meanwhile
      chunk = co_await first.wait();
    }
    on_disk.end();
    if (chunk) {
      now_.skip(chunk->bytes.size());
      chunk->attach(std::move(charge));
      if (now_.length == 0) start();
      co_return chunk;
    }
    if (chunk.error() != Errc::slow_down || SteadyClock::now() >= end) co_return chunk;
    // The arena's free parts are too small, or held without a charge, or by reads ahead.
    charge.release();
    give_back();
    most = memory::Budget::unit;
    boost::asio::steady_timer pause(executor_, again_after);
    co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

}  // namespace verbena::s3
