#include "s3/objects/ingest.h"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <exception>

#include "base/hex.h"
#include "base/request_trace.h"
#include "memory/budget.h"
#include "memory/gives_chunk.h"
#include "s3/objects/body_digests.h"
#include "s3/objects/encryption.h"
#include "s3/objects/md5_together.h"
#include "s3/objects/pending.h"

namespace verbena::s3 {
namespace {

// If the length is known, one byte more than is left: the read that meets the end then also returns the source's
// verification (signature, trailers), and a small body takes one read. Not if that byte would double the lease.
size_t next_read(std::optional<uint64_t> size, uint64_t have, size_t offer) {
  if (!size || *size - have >= offer) return offer;
  const auto left = static_cast<size_t>(*size - have);
  return memory::Arena::class_size(left + 1) > memory::Arena::class_size(left) ? left : left + 1;
}

std::optional<memory::Chunk> give_all(memory::Source& body) {
  auto* const gives = dynamic_cast<memory::GivesChunk*>(&body);
  return gives == nullptr ? std::nullopt : gives->give_all();
}

bool digests_together(BodyDigests& digests, Bytes bytes) {
  return bytes.size() >= md5_together_min && digests.running_md5() != nullptr;
}

Task<void> digest_together(BodyDigests& digests, Bytes bytes) {
  digests.update_all_but_md5(bytes);
  co_await update_md5_together(*digests.running_md5(), bytes);
}

// Fills one lease from the body, leased when its first byte has arrived, and digests it. An empty chunk: the end.
Task<Result<memory::Chunk>> read_chunk(memory::Share& share, memory::Source& body, std::optional<uint64_t> size,
                                       uint64_t have, BodyDigests& digests, bool& end, RequestTrace* trace) {
  ScopedStage on_wire(trace, Stage::wire);
  VB_CO_TRY(co_await body.ready());
  on_wire.end();
  if (auto all = have == 0 ? give_all(body) : std::nullopt) {
    digests.update(all->bytes);
    co_return std::move(*all);
  }
  ScopedStage for_memory(trace, Stage::memory);
  VB_CO_ASSIGN(memory::Lease lease, co_await share.lease(next_read(size, have, share.offer())));
  for_memory.end();
  ScopedStage reads(trace, Stage::wire);
  VB_CO_ASSIGN(const size_t got, co_await body.read(lease.bytes()));
  reads.end();
  end = got < lease.size();
  const Bytes bytes = Bytes(lease.bytes()).first(got);
  if (digests_together(digests, bytes)) {
    co_await digest_together(digests, bytes);
  } else {
    digests.update(bytes);
  }
  co_return memory::Chunk{std::move(lease), bytes};
}

// Likewise for a large body: one piece is digested while the next is read.
Task<Result<memory::Chunk>> read_chunk_aside(memory::Share& share, memory::Source& body, std::optional<uint64_t> size,
                                             uint64_t have, DigestsAside& aside, bool& end, RequestTrace* trace) {
  ScopedStage on_wire(trace, Stage::wire);
  VB_CO_TRY(co_await body.ready());
  on_wire.end();
  ScopedStage for_memory(trace, Stage::memory);
  VB_CO_ASSIGN(aside.lease, co_await share.lease(next_read(size, have, share.offer())));
  for_memory.end();
  const MutableBytes into = aside.lease.bytes();
  size_t have_now = 0;
  const ScopedStage reads(trace, Stage::wire);
  while (have_now < into.size() && !end) {
    const MutableBytes piece = into.subspan(have_now, std::min(DigestsAside::piece_size, into.size() - have_now));
    VB_CO_ASSIGN(const size_t got, co_await body.read(piece));
    end = got < piece.size();
    have_now += got;
    co_await aside.add(piece.first(got));
  }
  co_await aside.done();
  const Bytes bytes = Bytes(into).first(have_now);
  co_return memory::Chunk{std::move(aside.lease), bytes};
}

// One piece of a body. The end of the body is in the last one: it is shorter than asked for.
struct Piece {
  memory::Chunk chunk;
  bool end = false;
};

Task<Result<Piece>> read_piece(memory::Source& body, memory::Lease lease) {
  VB_CO_ASSIGN(const size_t got, co_await body.read(lease.bytes()));
  const Bytes bytes = Bytes(lease.bytes()).first(got);
  const bool end = got < lease.size();
  memory::Chunk chunk{std::move(lease), bytes};
  co_return Piece{std::move(chunk), end};
}

// A body that a device brings: the next piece is on its way while the last one is digested and stored. Used where that
// takes memory which is free now, so that no body waits for more while it holds some.
class PiecesAhead {
 public:
  // `size`: of the body. Both must outlive every read: finish() before they end.
  PiecesAhead(boost::asio::any_io_executor executor, memory::Arena& arena, memory::Share& share, memory::Source& body,
              uint64_t size)
      : executor_(std::move(executor)), arena_(arena), share_(share), body_(body), size_(size) {}

  // In smaller pieces a body gains nothing: each is a wake.
  static bool pays(const memory::Source& body, std::optional<uint64_t> size) {
    return size && *size >= 2 * memory::Budget::chunk_max && body.by_device();
  }
  // Digested.
  Task<Result<memory::Chunk>> next(BodyDigests& digests, bool& end, RequestTrace* trace) {
    if (!ahead_) {
      VB_CO_TRY(co_await body_.ready());
      ScopedStage for_memory(trace, Stage::memory);
      VB_CO_ASSIGN(memory::Lease lease, co_await share_.lease(next_size()));
      for_memory.end();
      ask_for(std::move(lease));
    }
    ScopedStage on_wire(trace, Stage::wire);
    auto piece = co_await ahead_->wait();
    on_wire.end();
    ahead_.reset();
    if (!piece) co_return std::unexpected(piece.error());
    end = piece->end;
    if (!end && asked_ < size_) ask_with_free_memory();
    const Bytes bytes = piece->chunk.bytes;
    if (digests_together(digests, bytes)) {
      co_await digest_together(digests, bytes);
    } else {
      digests.update(bytes);
    }
    co_return std::move(piece->chunk);
  }
  Task<void> finish() {
    if (ahead_) (void)co_await ahead_->wait();
    ahead_.reset();
  }

 private:
  size_t next_size() { return next_read(size_ - asked_, 0, share_.offer()); }
  void ask_for(memory::Lease lease) {
    asked_ += std::min<uint64_t>(lease.size(), size_ - asked_);
    ahead_.emplace(executor_, read_piece(body_, std::move(lease)));
  }
  void ask_with_free_memory() {
    const size_t wanted = next_size();
    auto charge = share_.try_take(wanted);
    if (!charge) return;
    auto lease = arena_.lease(std::min(wanted, charge->bytes()));
    if (!lease) return;
    lease->attach(std::move(*charge));
    ask_for(std::move(*lease));
  }

  boost::asio::any_io_executor executor_;
  memory::Arena& arena_;
  memory::Share& share_;
  memory::Source& body_;
  const uint64_t size_;
  uint64_t asked_ = 0;
  std::optional<Pending<Piece>> ahead_;
};

// A read that failed gives no bytes, although some of them, or all, have come.
void charge_failed_read(ByteCharge* charge, const memory::Source& body, uint64_t charged) {
  const uint64_t arrived = body.arrived();
  if (charge != nullptr && arrived > charged) charge->moved(arrived - charged);
}

// All declared bytes have arrived. The end, with the source's verification, needs no memory of the arena.
Task<Result<void>> expect_end(memory::Source& body) {
  std::byte one_more[1];
  const MutableBytes into(one_more);
  VB_CO_ASSIGN(const size_t got, co_await body.read(into));
  if (got != 0) co_return fail(Errc::incomplete_body, "put: longer than declared");
  co_return Result<void>{};
}

// A body on its way into the writer.
class Intake {
 public:
  Intake(boost::asio::any_io_executor executor, Service& service, const Call& call, store::ObjectWriter& writer,
         memory::Source& body, Reservation& room, ByteCharge* charge, BodyDigests& digests)
      : trace_(call.trace),
        writer_(writer),
        body_(body),
        room_(room),
        charge_(charge),
        digests_(digests),
        size_(body.size()),
        share_(service.arena, call.peer_address, size_) {
    if (digests.wants(Algorithm::md5) && size_.value_or(DigestsAside::body_size_min) >= DigestsAside::body_size_min) {
      aside_ = DigestsAside::make(std::move(digests), std::move(executor));
      return;
    }
    digests.leave_md5_to(body);
    if (PiecesAhead::pays(body, size_)) ahead_.emplace(std::move(executor), service.arena, share_, body, *size_);
  }

  bool reads_ahead() const { return ahead_.has_value(); }
  // All of it. Returns the bytes, whose digests are complete.
  Task<Result<uint64_t>> store() {
    for (bool end = false; !end;) {
      if (size_ && stored_ == *size_) {
        VB_CO_TRY(co_await expect_end(body_));
        break;
      }
      Result<memory::Chunk> read;
      if (aside_) {
        read = co_await read_chunk_aside(share_, body_, size_, stored_, *aside_, end, trace_);
      } else if (ahead_) {
        read = co_await ahead_->next(digests_, end, trace_);
      } else {
        read = co_await read_chunk(share_, body_, size_, stored_, digests_, end, trace_);
      }
      if (!read) charge_failed_read(charge_, body_, stored_);
      VB_CO_ASSIGN(memory::Chunk chunk, std::move(read));
      if (chunk.bytes.empty()) break;
      stored_ += chunk.bytes.size();
      if (charge_ != nullptr) charge_->moved(chunk.bytes.size());
      if (stored_ > put_size_max) co_return fail(Errc::entity_too_large, "put: body");
      if (size_ && stored_ > *size_) co_return fail(Errc::incomplete_body, "put: longer than declared");
      if (!size_) VB_CO_TRY(room_.grow(chunk.bytes.size()));
      const ScopedStage on_disk(trace_, Stage::disk);
      VB_CO_TRY(co_await writer_.append(std::move(chunk)));
    }
    if (size_ && stored_ != *size_) co_return fail(Errc::incomplete_body, "put: length");
    if (aside_) digests_ = std::move(aside_->digests);
    co_return stored_;
  }
  // store(), and nothing of the body is read after it, however it ends: also after an error of the store the piece
  // that is under way is waited for, no further one. A device that reads it uses the client's memory, which is the
  // client's again with the answer, and writes into the arena's, which must not be leased to another meanwhile.
  Task<Result<uint64_t>> store_reading_ahead() {
    std::exception_ptr thrown;
    Result<uint64_t> stored;
    try {
      stored = co_await store();
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await ahead_->finish();
    if (thrown) std::rethrow_exception(thrown);
    co_return stored;
  }

 private:
  RequestTrace* const trace_;
  store::ObjectWriter& writer_;
  memory::Source& body_;
  Reservation& room_;
  ByteCharge* const charge_;
  BodyDigests& digests_;
  const std::optional<uint64_t> size_;
  memory::Share share_;
  std::shared_ptr<DigestsAside> aside_;
  std::optional<PiecesAhead> ahead_;
  uint64_t stored_ = 0;
};

}  // namespace

Result<void> verify_checksums(const std::vector<store::Checksum>& expected,
                              const std::vector<store::Checksum>& computed) {
  for (const auto& wanted : expected) {
    const auto same = [&](const store::Checksum& c) { return c.algorithm == wanted.algorithm; };
    const auto found = std::ranges::find_if(computed, same);
    if (found == computed.end()) return fail(Errc::malformed_trailer, "checksum was not announced");
    if (found->value != wanted.value) return fail(Errc::bad_digest, "checksum");
  }
  return {};
}

bool has_md5_etag(const BucketAccess& access, const Seal& seal) { return !seal.opaque_etag() && !access.opaque_etags; }

std::string random_etag() {
  // A counter encrypted by a secret of the thread: as good as random, without a system call.
  struct Source {
    std::byte secrets[2][16];
    uint64_t count = 0;
    Source() { fill_random(MutableBytes(&secrets[0][0], sizeof secrets)); }
  };
  thread_local Source source;
  ++source.count;
  uint64_t words[2];
  const auto count = std::as_bytes(std::span(&source.count, 1));
  for (int i = 0; i < 2; ++i) words[i] = siphash24(source.secrets[i], count);
  std::string etag(34, '-');
  write_hex(std::as_bytes(std::span(words)), etag.data());
  etag.back() = 'r';
  return etag;
}

Task<Result<store::ObjectInfo>> ingest(Service& service, const Call& call, store::ObjectWriter& writer,
                                       const PutRequest& request, memory::Source& body, Reservation& room,
                                       ByteCharge* charge) {
  BodyDigests digests;
  if (request.md5_etag || request.content_md5) digests.want_md5();
  for (const auto& checksum : request.expected) digests.want(checksum.algorithm);
  if (request.compute) digests.want(*request.compute);
  for (const Algorithm algorithm : request.continues) digests.want(algorithm);

  digests.leave_crc32c_to(writer);

  store::ObjectInfo info;
  Intake intake(co_await boost::asio::this_coro::executor, service, call, writer, body, room, charge, digests);
  if (intake.reads_ahead()) {
    VB_CO_ASSIGN(info.size, co_await intake.store_reading_ahead());
  } else {
    VB_CO_ASSIGN(info.size, co_await intake.store());
  }
  digests.finish();
  if (request.content_md5 && digests.md5() != *request.content_md5) co_return fail(Errc::bad_digest, "Content-MD5");
  VB_CO_TRY(verify_checksums(request.expected, digests.checksums()));
  if (request.trailing) {
    VB_CO_ASSIGN(const auto trailed, request.trailing());
    VB_CO_TRY(verify_checksums(trailed, digests.checksums()));
  }
  info.etag = request.md5_etag ? to_hex(as_bytes(digests.md5())) : random_etag();
  info.checksums = digests.checksums();
  co_return info;
}

}  // namespace verbena::s3
