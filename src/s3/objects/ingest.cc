#include "s3/objects/ingest.h"

#include <boost/asio/this_coro.hpp>

#include <algorithm>

#include "base/hex.h"
#include "base/request_trace.h"
#include "memory/budget.h"
#include "memory/gives_chunk.h"
#include "s3/objects/body_digests.h"
#include "s3/objects/encryption.h"
#include "s3/objects/md5_together.h"

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
    digests.update_all_but_md5(bytes);
    co_await update_md5_together(*digests.running_md5(), bytes);
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
  RequestTrace* const trace = call.trace;
  BodyDigests digests;
  if (request.md5_etag || request.content_md5) digests.want_md5();
  for (const auto& checksum : request.expected) digests.want(checksum.algorithm);
  if (request.compute) digests.want(*request.compute);
  for (const Algorithm algorithm : request.continues) digests.want(algorithm);

  digests.leave_crc32c_to(writer);

  const auto size = body.size();
  memory::Share share(service.arena, call.peer_address, size);
  store::ObjectInfo info;
  std::shared_ptr<DigestsAside> aside;
  if (digests.wants(Algorithm::md5) && size.value_or(DigestsAside::body_size_min) >= DigestsAside::body_size_min) {
    aside = DigestsAside::make(std::move(digests), co_await boost::asio::this_coro::executor);
  } else {
    digests.leave_md5_to(body);
  }
  for (bool end = false; !end;) {
    if (size && info.size == *size) {
      VB_CO_TRY(co_await expect_end(body));
      break;
    }
    Result<memory::Chunk> read;
    if (aside) {
      read = co_await read_chunk_aside(share, body, size, info.size, *aside, end, trace);
    } else {
      read = co_await read_chunk(share, body, size, info.size, digests, end, trace);
    }
    if (!read) charge_failed_read(charge, body, info.size);
    VB_CO_ASSIGN(memory::Chunk chunk, std::move(read));
    if (chunk.bytes.empty()) break;
    info.size += chunk.bytes.size();
    if (charge != nullptr) charge->moved(chunk.bytes.size());
    if (info.size > put_size_max) co_return fail(Errc::entity_too_large, "put: body");
    if (size && info.size > *size) co_return fail(Errc::incomplete_body, "put: longer than declared");
    if (!size) VB_CO_TRY(room.grow(chunk.bytes.size()));
    const ScopedStage on_disk(trace, Stage::disk);
    VB_CO_TRY(co_await writer.append(std::move(chunk)));
  }
  if (size && info.size != *size) co_return fail(Errc::incomplete_body, "put: length");

  if (aside) digests = std::move(aside->digests);
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
