#include "rdma/sealed_streams.h"

#include <algorithm>

#include "base/copy.h"
#include "fabric/sealed/counters.h"
#include "rdma/transfer_times.h"

namespace verbena::rdma {

namespace sealed = fabric::sealed;

Task<Result<void>> TagMemory::take() {
  VB_CO_ASSIGN(lease_, co_await share_.lease(size_));
  co_return Result<void>{};
}

memory::Chunk TagMemory::release() {
  const Bytes bytes = this->bytes();
  return {std::move(lease_), bytes};
}

SealedSink::SealedSink(memory::Sink& inner, sealed::Transfer transfer, memory::Arena& arena, std::string_view peer)
    : inner_(inner),
      transfer_(std::move(transfer)),
      arena_(arena),
      share_(arena, peer, transfer_.length()),
      tags_(arena, peer, sealed::trailer_size(transfer_.length())) {}

Task<Result<void>> SealedSink::reserve() {
  VB_CO_TRY(co_await tags_.take());
  transfer_.keep_tags_in(tags_.bytes());
  co_return Result<void>{};
}

Task<Result<void>> SealedSink::begin(uint64_t length) {
  if (length != transfer_.length()) co_return fail(Errc::internal, "sealed sink: another length");
  if (!tags_.taken()) co_return fail(Errc::internal, "sealed sink: no memory for tags");
  co_return co_await inner_.begin(length + sealed::trailer_size(length));
}

Task<Result<void>> SealedSink::push(memory::Chunk chunk) {
  const size_t size = chunk.bytes.size();
  if (size > transfer_.length() - transfer_.sealed()) {
    co_return fail(Errc::internal, "sealed sink: more bytes than announced");
  }
  if (!chunk.lease) {
    VB_CO_TRY(co_await push_copy(std::move(chunk)));
  } else {
    transfer_.seal(chunk.bytes, chunk.lease.data() + (chunk.bytes.data() - chunk.lease.data()));
    VB_CO_TRY(co_await inner_.push(std::move(chunk)));
  }
  sealed::counters().bytes_out.add(size);
  co_return Result<void>{};
}

// The charge of shared bytes goes over to their sealed copy: a request that waited for more while it holds some could
// wait for others that do the same.
Task<Result<void>> SealedSink::push_copy(memory::Chunk chunk) {
  for (Bytes left = chunk.bytes; !left.empty();) {
    memory::Lease lease;
    if (chunk.charge.bytes() >= left.size()) {
      VB_CO_ASSIGN(lease, arena_.lease(left.size()));
      lease.attach(std::move(chunk.charge));
    } else {
      VB_CO_ASSIGN(lease, co_await share_.lease(std::min(left.size(), memory::Budget::chunk_max)));
    }
    const Bytes bytes = Bytes(lease.bytes()).first(std::min(left.size(), lease.size()));
    transfer_.seal(left.first(bytes.size()), lease.data());
    left = left.subspan(bytes.size());
    memory::Chunk copy{std::move(lease), bytes};
    VB_CO_TRY(co_await inner_.push(std::move(copy)));
  }
  co_return Result<void>{};
}

Task<Result<void>> SealedSink::finish() {
  if (transfer_.sealed() != transfer_.length()) {
    co_return fail(Errc::internal, "sealed sink: fewer bytes than announced");
  }
  VB_CO_TRY(co_await inner_.push(tags_.release()));
  co_return co_await inner_.finish();
}

SealedSource::SealedSource(std::unique_ptr<fabric::Window> window, sealed::Transfer transfer,
                           std::chrono::milliseconds deadline, memory::Arena& arena, std::string_view peer)
    : window_(std::move(window)),
      transfer_(std::move(transfer)),
      deadline_(deadline),
      share_(arena, peer, std::nullopt),
      tags_(arena, peer, sealed::trailer_size(transfer_.length())) {
  TransferTimes::get();  // before the time is read
}

Task<Result<void>> SealedSource::ready() {
  if (outcome_ && !tags_.taken()) outcome_ = co_await read_tags();
  co_return outcome_;
}

Task<Result<size_t>> SealedSource::read(MutableBytes into) {
  VB_CO_TRY(co_await ready());
  size_t filled = 0;
  while (outcome_ && filled < into.size() && (rest_at_ < rest_.size() || next_ < transfer_.records())) {
    outcome_ = co_await read_some(into, filled);
  }
  if (!outcome_) co_return std::unexpected(outcome_.error());
  co_return filled;
}

Task<Result<void>> SealedSource::read_some(MutableBytes into, size_t& filled) {
  const MutableBytes room = into.subspan(filled);
  if (rest_at_ < rest_.size()) {
    const Bytes rest = Bytes(rest_).subspan(rest_at_).first(std::min(room.size(), rest_.size() - rest_at_));
    copy_bytes(room.data(), rest);
    rest_at_ += rest.size();
    filled += rest.size();
    co_return Result<void>{};
  }
  const size_t whole = whole_records(room.size());
  if (whole == 0) co_return co_await read_ahead();
  VB_CO_TRY(co_await read_records(room.first(whole)));
  filled += whole;
  co_return Result<void>{};
}

// At once: 64 KiB at most.
Task<Result<void>> SealedSource::read_tags() {
  VB_CO_TRY(co_await tags_.take());
  transfer_.keep_tags_in(tags_.bytes());
  co_return co_await read_window(tags_.bytes(), transfer_.length());
}

Task<Result<void>> SealedSource::read_window(MutableBytes into, uint64_t at) {
  const uint64_t began = ticks();
  Result<void> done = co_await window_->read(into, at, deadline_in(deadline_));
  TransferTimes::get().read.observe_since(began);
  co_return done;
}

// Bytes of the next records that fit.
size_t SealedSource::whole_records(size_t room) const {
  size_t bytes = 0;
  for (size_t i = next_; i < transfer_.records() && transfer_.size_of(i) <= room - bytes; ++i)
    bytes += transfer_.size_of(i);
  return bytes;
}

// `into` has the size of the next records.
Task<Result<void>> SealedSource::read_records(MutableBytes into) {
  VB_CO_TRY(co_await read_window(into, next_ * sealed::record_size_max));
  for (size_t at = 0; at < into.size(); ++next_) {
    const MutableBytes record = into.subspan(at, transfer_.size_of(next_));
    if (!transfer_.open(next_, record, record.data())) {
      sealed::counters().forged_records.add();
      co_return fail(Errc::bad_digest, "sealed: a record was changed on its way");
    }
    at += record.size();
  }
  sealed::counters().bytes_in.add(into.size());
  co_return Result<void>{};
}

// A record that is longer than the caller's memory. Rare: pieces of bodies are whole records.
Task<Result<void>> SealedSource::read_ahead() {
  const size_t size = transfer_.size_of(next_);
  VB_CO_ASSIGN(const memory::Lease lease, co_await share_.lease(size));
  const MutableBytes bytes = lease.bytes().first(size);
  VB_CO_TRY(co_await read_records(bytes));
  rest_.assign(bytes.begin(), bytes.end());
  rest_at_ = 0;
  co_return Result<void>{};
}

}  // namespace verbena::rdma
