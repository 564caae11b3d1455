// Chunks of an object in order, with a few reads in flight, so that disk and wire overlap.
#pragma once

#include <deque>
#include <memory>

#include "memory/stream.h"
#include "s3/pending.h"
#include "store/store.h"

namespace verbena::s3 {

class ReadAhead {
 public:
  static constexpr size_t depth_max = 3;  // chunks of 1 MiB in flight

  ReadAhead(boost::asio::any_io_executor executor, std::shared_ptr<store::ObjectReader> reader, uint64_t offset,
            uint64_t length);
  bool done() const { return remaining_ == 0 && pending_.empty(); }
  void start();                        // fills the pipeline; next() does so too
  Task<Result<memory::Chunk>> next();  // not when done()

 private:
  boost::asio::any_io_executor executor_;
  std::shared_ptr<store::ObjectReader> reader_;
  uint64_t offset_;
  uint64_t remaining_;
  std::deque<Pending<memory::Chunk>> pending_;
};

}  // namespace verbena::s3
