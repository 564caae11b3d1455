#include "s3/read_ahead.h"

#include <algorithm>

namespace verbena::s3 {
namespace {

// Owns the reader: it may outlive the request that started it.
Task<Result<memory::Chunk>> read_chunk(std::shared_ptr<store::ObjectReader> reader, uint64_t offset, size_t length) {
  co_return co_await reader->read(offset, length);
}

}  // namespace

ReadAhead::ReadAhead(boost::asio::any_io_executor executor, std::shared_ptr<store::ObjectReader> reader,
                     uint64_t offset, uint64_t length)
    : executor_(std::move(executor)), reader_(std::move(reader)), offset_(offset), remaining_(length) {}

void ReadAhead::start() {
  while (remaining_ > 0 && pending_.size() < depth_max) {
    const auto length = static_cast<size_t>(std::min<uint64_t>(remaining_, store::ObjectReader::chunk_size_max));
    pending_.emplace_back(executor_, read_chunk(reader_, offset_, length));
    offset_ += length;
    remaining_ -= length;
  }
}

Task<Result<memory::Chunk>> ReadAhead::next() {
  start();
  Pending<memory::Chunk> first = std::move(pending_.front());
  pending_.pop_front();
  start();
  co_return co_await first.wait();
}

}  // namespace verbena::s3
