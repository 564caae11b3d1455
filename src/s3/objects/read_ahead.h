// Chunks of an object in order, with a few reads in flight while there is memory for them, so that disk and wire
// overlap.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string_view>
#include <vector>

#include "base/request_trace.h"
#include "memory/budget.h"
#include "memory/stream.h"
#include "s3/objects/pending.h"
#include "store/store.h"

namespace verbena::s3 {

class ReadAhead {
 public:
  static constexpr size_t depth_max = 3;  // chunks of 1 MiB in flight, or two runs (store/read_runs.h)

  // Memory is charged to `peer`, a client's address. Arena, address and `trace` (may be null; gets the waiting times of
  // next()) must outlive this.
  ReadAhead(boost::asio::any_io_executor executor, memory::Arena& arena, std::string_view peer,
            std::shared_ptr<store::ObjectReader> reader, uint64_t offset, uint64_t length,
            RequestTrace* trace = nullptr);
  bool done() const { return rest_.length == 0 && now_.length == 0 && pending_.empty(); }
  // Waits for memory if no read is in flight. slow_down: there was none for too long.
  Task<Result<memory::Chunk>> next();  // not after done()
  // Little memory is left: the caller should release the last chunk before it calls next().
  bool scarce() { return share_.scarce(); }

 private:
  struct Range {
    uint64_t offset = 0, length = 0;
    void skip(uint64_t n) {
      offset += n;
      length -= n;
    }
  };
  struct Ahead {
    Range range;
    Pending<memory::Chunk> read;
  };
  bool in_memory(const Range& range) const;  // nothing to overlap with
  size_t chunks_of_run() const;              // to the end of the one that `rest_` begins in
  void start();
  bool start_chunk();
  void give_back();
  Task<Result<memory::Chunk>> read_now();

  boost::asio::any_io_executor executor_;
  std::shared_ptr<store::ObjectReader> reader_;
  const uint64_t run_bytes_;
  memory::Share share_;
  const std::chrono::milliseconds wait_max_;
  Range rest_;
  Range now_;  // the next range, before all others: the first one, or one that did not fit the arena in one piece
  std::vector<Ahead> pending_;
  RequestTrace* const trace_;
};

}  // namespace verbena::s3
