// A client's window as Sink and Source whose bytes move sealed. Both take their part of the transfer by itself, and
// nothing of a record is given to the caller before its tag was right. The tags, up to 64 KiB, are in memory of the
// peer's share, from before the first byte moves until the end. It is taken while the request holds no other, because a
// request that waits for memory while it holds some could wait for others that do the same.
#pragma once

#include <memory>
#include <string_view>

#include "fabric/fabric.h"
#include "fabric/sealed/transfer.h"
#include "memory/budget.h"
#include "memory/stream.h"

namespace verbena::rdma {

// Memory for a transfer's tags.
class TagMemory {
 public:
  // `arena` and `peer` outlive it.
  TagMemory(memory::Arena& arena, std::string_view peer, size_t size) : share_(arena, peer, size), size_(size) {}
  // Waits for it. slow_down: too many wait, or it took too long.
  Task<Result<void>> take();
  bool taken() const { return lease_.size() != 0; }
  MutableBytes bytes() { return lease_.bytes().first(size_); }
  // Gives it to a sink.
  memory::Chunk release();

 private:
  memory::Share share_;  // its own, so that the tags are a small request of the budget
  size_t size_;
  memory::Lease lease_;
};

// Seals a GET's bytes on their way to `inner`, and sends the tags behind them. Bytes that are this request's alone are
// sealed where they are; others, which are shared with the hot tier, go through memory of the peer's share.
class SealedSink final : public memory::Sink {
 public:
  // `inner`, `arena` and `peer` outlive it.
  SealedSink(memory::Sink& inner, fabric::sealed::Transfer transfer, memory::Arena& arena, std::string_view peer);
  // Takes the memory for the tags. Called once, before the object's first byte is read. slow_down: the peer's share is
  // used up.
  Task<Result<void>> reserve();
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
  TagMemory tags_;
};

// A PUT's bytes out of a window of sealed ones: transfer.length() bytes from its start, and their tags. Record by
// record they are read into memory that no remote key names, and opened there. bad_digest: a record was changed.
class SealedSource final : public memory::Source {
 public:
  // `arena` and `peer` outlive it. The window holds the bytes and their tags (fabric::sealed::fits).
  SealedSource(std::unique_ptr<fabric::Window> window, fabric::sealed::Transfer transfer,
               std::chrono::milliseconds deadline, memory::Arena& arena, std::string_view peer);
  std::optional<uint64_t> size() const override { return transfer_.length(); }
  // Reads the tags.
  Task<Result<void>> ready() override;
  // `into` must be arena memory.
  Task<Result<size_t>> read(MutableBytes into) override;
  bool by_device() const override { return window_->by_device(); }

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
  TagMemory tags_;
  size_t next_ = 0;              // the record to be read
  std::vector<std::byte> rest_;  // of a record that did not fit the caller's memory: opened, from rest_at_ on
  size_t rest_at_ = 0;
  Result<void> outcome_;
};

}  // namespace verbena::rdma
