// A client's window as Sink and Source whose bytes move sealed. Both take their part of the transfer by itself, and
// nothing of a record is given to the caller before its tag was right.
#pragma once

#include <memory>
#include <string_view>

#include "fabric/fabric.h"
#include "fabric/sealed/transfer.h"
#include "memory/budget.h"
#include "memory/stream.h"

namespace verbena::rdma {

// Seals a GET's bytes on their way to `inner`, and sends the tags behind them. Bytes that are this request's alone are
// sealed where they are; others, which are shared with the hot tier, go through memory of the peer's share.
class SealedSink final : public memory::Sink {
 public:
  // `inner`, `arena` and `peer` outlive it.
  SealedSink(memory::Sink& inner, fabric::sealed::Transfer transfer, memory::Arena& arena, std::string_view peer);
  Task<Result<void>> begin(uint64_t length) override;
  Task<Result<void>> push(memory::Chunk chunk) override;
  Task<Result<void>> drained() override { co_return co_await inner_.drained(); }
  Task<Result<void>> finish() override;

 private:
  Task<Result<void>> push_copy(memory::Chunk chunk);

  memory::Sink& inner_;
  fabric::sealed::Transfer transfer_;
  memory::Arena& arena_;
  memory::Share share_;
};

// A PUT's bytes out of a window of sealed ones: transfer.length() bytes from its start, and their tags. Record by
// record they are read into memory that no remote key names, and opened there. bad_digest: a record was changed.
class SealedSource final : public memory::Source {
 public:
  // `arena` and `peer` outlive it. The window holds the bytes and their tags (fabric::sealed::fits).
  SealedSource(std::unique_ptr<fabric::Window> window, fabric::sealed::Transfer transfer,
               std::chrono::milliseconds deadline, memory::Arena& arena, std::string_view peer);
  std::optional<uint64_t> size() const override { return transfer_.length(); }
  // `into` must be arena memory.
  Task<Result<size_t>> read(MutableBytes into) override;

 private:
  Task<Result<void>> read_some(MutableBytes into, size_t& filled);
  Task<Result<void>> read_tags();
  Task<Result<void>> read_window(MutableBytes into, uint64_t at);
  size_t whole_records(size_t room) const;
  Task<Result<void>> read_records(MutableBytes into);
  Task<Result<void>> read_ahead();

  std::unique_ptr<fabric::Window> window_;
  fabric::sealed::Transfer transfer_;
  std::chrono::milliseconds deadline_;
  memory::Share share_;
  bool has_tags_ = false;
  size_t next_ = 0;              // the record to be read
  std::vector<std::byte> rest_;  // of a record that did not fit the caller's memory: opened, from rest_at_ on
  size_t rest_at_ = 0;
  Result<void> outcome_;
};

}  // namespace verbena::rdma
