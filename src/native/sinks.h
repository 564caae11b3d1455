// The native door's own Sink and Source, for bytes inside messages, and a part of a window. Transfers through a whole
// window use rdma::WindowSink and rdma::WindowSource.
#pragma once

#include <cstring>
#include <memory>

#include "fabric/fabric.h"
#include "memory/stream.h"

namespace verbena::native {

// Writes into a reply. `place` must outlive it.
class InlineSink final : public memory::Sink {
 public:
  explicit InlineSink(MutableBytes place) : place_(place) {}
  Result<memory::AtOnce> send_at_once(uint64_t length, memory::Pieces& pieces) override {
    if (length != place_.size()) return memory::AtOnce::unsupported;
    for (uint64_t at = 0; at < length;) {
      const memory::Chunk piece = pieces.next();
      if (piece.bytes.empty()) return memory::AtOnce::unsupported;
      std::memcpy(place_.data() + at, piece.bytes.data(), piece.bytes.size());
      at += piece.bytes.size();
    }
    return memory::AtOnce::sent;
  }
  Task<Result<void>> begin(uint64_t length) override {
    if (length != place_.size()) co_return fail(Errc::internal, "native: inline length");
    co_return Result<void>{};
  }
  Task<Result<void>> push(memory::Chunk chunk) override {
    if (chunk.bytes.size() > place_.size() - at_) co_return fail(Errc::internal, "native: more bytes than announced");
    std::memcpy(place_.data() + at_, chunk.bytes.data(), chunk.bytes.size());
    at_ += chunk.bytes.size();
    co_return Result<void>{};
  }
  Task<Result<void>> finish() override {
    if (at_ != place_.size()) co_return fail(Errc::internal, "native: fewer bytes than announced");
    co_return Result<void>{};
  }

 private:
  MutableBytes place_;
  size_t at_ = 0;
};

// Reads from a request. `bytes` must outlive it.
class InlineSource final : public memory::Source {
 public:
  explicit InlineSource(Bytes bytes) : bytes_(bytes) {}
  std::optional<uint64_t> size() const override { return bytes_.size(); }
  Task<Result<size_t>> read(MutableBytes into) override {
    const size_t n = std::min(into.size(), bytes_.size() - at_);
    if (n != 0) std::memcpy(into.data(), bytes_.data() + at_, n);
    at_ += n;
    co_return n;
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

// [at, at + size) of a window that several ranges share.
class WindowPart final : public fabric::Window {
 public:
  WindowPart(std::shared_ptr<fabric::Window> whole, uint64_t at, uint64_t size)
      : whole_(std::move(whole)), at_(at), size_(size) {}
  uint64_t size() const override { return size_; }
  bool by_device() const override { return whole_->by_device(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override {
    if (at > size_ || from.size() > size_ - at) co_return fail(Errc::internal, "native: outside the range's part");
    co_return co_await whole_->write(from, at_ + at, deadline);
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override {
    if (at > size_ || into.size() > size_ - at) co_return fail(Errc::internal, "native: outside the range's part");
    co_return co_await whole_->read(into, at_ + at, deadline);
  }

 private:
  std::shared_ptr<fabric::Window> whole_;
  uint64_t at_, size_;
};

}  // namespace verbena::native
