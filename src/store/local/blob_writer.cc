#include "store/local/blob_writer.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstring>

#include "base/checksum.h"

namespace verbena::store::local {
namespace {

namespace asio = boost::asio;

constexpr size_t stage_size = 256 * KiB;  // a multiple of block_size
constexpr size_t in_flight_max = 4;       // writes at a time, each of at most one lease
constexpr uint64_t run_size_max = 64 * MiB;
// Runs grow with the bytes received, not with the promised size: a client that promises 64 MiB and sends 1 holds 2.
constexpr uint64_t first_run_size = 1 * MiB;
constexpr uint64_t long_run = 1 * MiB;  // at least so much of a longer one is in one place, where free space is reused

}  // namespace

VolumeBlobWriter::VolumeBlobWriter(std::shared_ptr<Engine> engine, VolumeKind kind, std::optional<uint64_t> size_hint)
    : engine_(std::move(engine)), kind_(kind), size_hint_(size_hint) {}

VolumeBlobWriter::~VolumeBlobWriter() {
  engine_->garbage->reclaim(std::move(runs_));
  engine_->garbage->reclaim(std::move(written_.runs));
}

Task<Result<void>> VolumeBlobWriter::append(memory::Chunk chunk) {
  VB_CO_TRY(state_);
  Bytes rest = chunk.bytes;
  if (size_ + rest.size() > stored_size_max) co_return fail(Errc::entity_too_large);
  const SharedLease lease = std::make_shared<const memory::Chunk>(std::move(chunk));
  while (!rest.empty()) {
    bool aligned = reinterpret_cast<uintptr_t>(rest.data()) % disk_alignment == 0;
    if (staged_ == 0 && aligned && rest.size() >= block_size) {
      // Straight from the caller's lease to the disk.
      Bytes whole = rest.first(align_down(rest.size(), block_size));
      size_ += whole.size();
      VB_CO_TRY(co_await write_out(lease, whole, 0));
      rest = rest.subspan(whole.size());
      continue;
    }
    VB_CO_TRY(make_stage(rest.size()));
    size_t n = std::min(rest.size(), stage_size - staged_);
    std::memcpy(stage_.data() + staged_, rest.data(), n);
    staged_ += n;
    size_ += n;
    rest = rest.subspan(n);
    if (staged_ == stage_size) VB_CO_TRY(co_await flush_stage(false));
  }
  co_return state_;
}

// Makes room for `more` bytes, up to a full stage. The first lease is as small as the first bytes allow, since most
// objects that need a stage are small ones that arrive in one piece.
Result<void> VolumeBlobWriter::make_stage(size_t more) {
  size_t need = std::min(staged_ + more, stage_size);
  if (stage_.size() >= need) return {};
  size_t size = stage_ ? stage_size : align_up(need);
  VB_ASSIGN(memory::Lease lease, engine_->options.arena->lease(size));
  if (staged_ != 0) std::memcpy(lease.data(), stage_.data(), staged_);
  stage_ = std::move(lease);
  return {};
}

Task<Result<void>> VolumeBlobWriter::flush_stage(bool last) {
  size_t padded = align_up(staged_);
  size_t padding = last ? padded - staged_ : 0;
  std::memset(stage_.data() + staged_, 0, padding);
  Bytes bytes(stage_.data(), staged_ + padding);
  staged_ = 0;
  auto lease = std::make_shared<memory::Lease>(std::move(stage_));
  co_return co_await write_out(std::move(lease), bytes, padding);
}

Task<Result<void>> VolumeBlobWriter::write_out(SharedLease lease, Bytes bytes, size_t padding) {
  add_checksums(bytes.first(bytes.size() - padding));
  while (!bytes.empty()) {
    uint64_t room = runs_.empty() ? 0 : runs_.back().length - run_used_;
    // A block never spans two runs.
    size_t n = room >= bytes.size() ? bytes.size() : align_down(room, block_size);
    if (n == 0) {
      end_run();
      VB_CO_TRY(co_await next_run(bytes.size()));
      continue;
    }
    co_await wait_for_writes(in_flight_max - 1);
    VB_CO_TRY(state_);
    Run& run = runs_.back();
    ++in_flight_;
    auto piece =
        write_piece(shared_from_this(), {run.volume, run.offset + run_used_, run.reused}, bytes.first(n), lease);
    run_used_ += n;
    bytes = bytes.subspan(n);
    if (bytes.empty() && size_hint_ == size_) {
      co_await std::move(piece);  // nothing comes that could be taken meanwhile
    } else {
      auto executor = co_await asio::this_coro::executor;
      asio::co_spawn(executor, std::move(piece), asio::detached);
    }
  }
  co_return Result<void>();
}

Task<> VolumeBlobWriter::write_piece(std::shared_ptr<VolumeBlobWriter> self, Place place, Bytes bytes,
                                     SharedLease lease) {
  const auto written = co_await self->engine_->io->write(place.volume, place.offset, bytes, place.in_place);
  place.volume->note_written();
  if (!written) {
    // After EIO the file system may have dropped more than these bytes.
    if (written.error() == Errc::io_error) place.volume->distrust();
    if (self->state_) self->state_ = written;
  }
  lease.reset();
  --self->in_flight_;
  if (self->wake_) self->wake_->cancel();
}

Task<> VolumeBlobWriter::wait_for_writes(size_t upto) {
  while (in_flight_ > upto) {
    if (!wake_) wake_.emplace(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
    co_await wake_->async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void VolumeBlobWriter::add_checksums(Bytes data) {
  for (size_t at = 0; at < data.size(); at += block_size) {
    block_crcs_.push_back(verbena::crc32c(data.subspan(at, std::min<size_t>(block_size, data.size() - at))));
  }
}

// From those of its blocks, all of which are whole so far, and of the bytes that wait for a whole block.
std::optional<uint32_t> VolumeBlobWriter::crc32c() const {
  uint32_t crc = 0;
  for (const uint32_t block : block_crcs_) crc = crc32c_combine(crc, block, block_size);
  return verbena::crc32c({stage_.data(), staged_}, crc);
}

Task<Result<void>> VolumeBlobWriter::next_run(uint64_t at_least) {
  uint64_t want = align_up(std::max(first_run_size, reserved_), block_size);
  if (size_hint_ && *size_hint_ > reserved_) want = std::min(want, align_up(*size_hint_ - reserved_));
  uint64_t most = std::min(run_size_max, engine_->volumes->run_max());
  uint64_t bytes = std::min(std::max(want, align_up(at_least)), most);
  // A shorter run is enough for bytes of unknown number; of a long blob, shorter ones would be too many.
  const uint64_t least = std::min(size_hint_ ? bytes : align_up(at_least), long_run);
  auto run = engine_->volumes->try_reserve(kind_, bytes, least);
  if (!run) {
    auto work = [engine = engine_, kind = kind_, bytes, least] {
      return engine->volumes->reserve_any(kind, bytes, least);
    };
    VB_CO_ASSIGN(run, co_await engine_->pool().run("volume growth", std::move(work)));
  }
  reserved_ += run->length;
  run_used_ = 0;
  runs_.push_back(std::move(*run));
  co_return Result<void>();
}

// Cuts the last run at the last written byte and frees the rest.
void VolumeBlobWriter::end_run() {
  if (runs_.empty() || run_used_ == runs_.back().length) return;
  Run& run = runs_.back();
  reserved_ -= run.length - run_used_;
  std::vector<Run> unused;
  if (auto rest = engine_->volumes->trim(run, run_used_)) unused.push_back(std::move(*rest));
  engine_->garbage->reclaim(std::move(unused));
  if (run.length == 0) {
    engine_->volumes->settle(run);
    runs_.pop_back();
    run_used_ = runs_.empty() ? 0 : runs_.back().length;
  }
}

Task<Result<BlobRef>> VolumeBlobWriter::finish() {
  VB_CO_TRY(state_);
  WrittenBlob& blob = written_;
  if (size_ == 0) co_return blob.ref;
  if (runs_.empty() && size_ == staged_ && size_ <= engine_->options.inline_max) {
    co_return finish_in_index({stage_.data(), staged_});
  }
  blob.ref.size = size_;
  blob.ref.id = engine_->next_id();
  if (staged_ != 0) VB_CO_TRY(co_await flush_stage(true));
  co_await wait_for_writes(0);
  VB_CO_TRY(state_);
  end_run();
  blob.ref.kind = BlobKind::extents;
  blob.segments = make_segments();
  blob.runs = std::exchange(runs_, {});
  co_return blob.ref;
}

BlobRef VolumeBlobWriter::finish_in_index(Bytes bytes) {
  size_ = bytes.size();
  written_.ref = {BlobKind::in_index, engine_->next_id(), size_};
  written_.in_index = encode_inline(bytes);
  return written_.ref;
}

std::vector<Segment> VolumeBlobWriter::make_segments() const {
  std::vector<Segment> segments((block_crcs_.size() * block_size + segment_size - 1) / segment_size);
  size_t blocks_each = segment_size / block_size;
  for (size_t i = 0; i < block_crcs_.size(); ++i) segments[i / blocks_each].block_crcs.push_back(block_crcs_[i]);
  uint64_t at = 0;  // in the blob
  for (const Run& run : runs_) {
    for (uint64_t done = 0; done < run.length;) {
      uint64_t n = std::min(run.length - done, segment_size - at % segment_size);
      auto& extents = segments[at / segment_size].extents;
      Extent next{run.volume->id(), run.offset + done, n};
      bool joins = !extents.empty() && extents.back().volume == next.volume &&
                   extents.back().offset + extents.back().length == next.offset;
      if (joins) {
        extents.back().length += n;
      } else {
        extents.push_back(next);
      }
      at += n;
      done += n;
    }
  }
  return segments;
}

VolumeKind volume_kind(const Bucket& bucket) {
  bool memory = bucket.durability.load(std::memory_order_acquire) == Durability::memory;
  return memory ? VolumeKind::written_behind : VolumeKind::durable;
}

void add_blob(Batch& batch, const WrittenBlob& blob) {
  if (blob.ref.kind == BlobKind::in_index) {
    batch.put_unread(Family::in_index, keys::in_index(blob.ref.id), blob.in_index);
  }
  for (size_t i = 0; i < blob.segments.size(); ++i) {
    const Segment& segment = blob.segments[i];
    batch.put(Family::segments, keys::segment(blob.ref.id, static_cast<uint32_t>(i)), encode(segment));
    for (const Extent& x : segment.extents) {
      batch.put(Family::extents, keys::extent(x.volume, x.offset), encode(ExtentOwner{blob.ref.id, x.length}));
    }
  }
}

}  // namespace verbena::store::local
