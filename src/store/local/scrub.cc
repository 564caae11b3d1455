#include "store/local/scrub.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "base/checksum.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/local/engine.h"
#include "store/local/write_behind.h"
#include "store/logic/versions.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;

constexpr size_t read_size = 1 * MiB;       // a multiple of block_size
constexpr size_t inline_batch = 256;        // small blobs in one step
constexpr uint64_t save_every = 256 * MiB;  // the most that a restart repeats
constexpr auto busy_look = 100ms;           // interval of checks for other use of the disk
constexpr uint64_t busy_operations = 4;     // by others in that interval: more is a load
constexpr auto busy_wait_max = 10s;         // before it continues despite the load
constexpr auto scrub_again_after = 60s;     // when the index could not be read
constexpr auto rest_min = 1s;               // after a round, which may have had nothing to read
constexpr size_t names_max = 100;           // per round: each costs a walk through the index

struct Counters {
  metrics::Counter& bytes = metrics::counter("verbena_scrub_bytes_total", "Bytes that the scrub has read and checked");
  metrics::Counter& damaged =
      metrics::counter("verbena_scrub_damaged_blocks_total", "Blocks that the scrub found damaged");
  metrics::Counter& unreadable =
      metrics::counter("verbena_scrub_unreadable_blocks_total", "Blocks that the disk refused to read to the scrub");
  metrics::Counter& rounds = metrics::counter("verbena_scrub_rounds_total", "Times that the scrub has read everything");
  metrics::Gauge& last = metrics::gauge("verbena_scrub_last_round_seconds", "When it last had, in Unix time");
};

Counters& counters() {
  static Counters all;
  return all;
}

// The padding after the last byte is not covered, and only the blob's record has its size: for the last block each
// possible length is tried.
bool block_matches(Bytes block, uint32_t wanted, bool last) {
  if (crc32c(block) == wanted) return true;
  if (!last) return false;
  const size_t least = block.size() - std::min<size_t>(block.size(), disk_alignment);
  uint32_t crc = crc32c(block.first(least));
  for (size_t at = least; at < block.size(); ++at) {
    crc = crc32c(block.subspan(at, 1), crc);
    if (crc == wanted) return true;
  }
  return false;
}

}  // namespace

void Scrub::start() {
  counters();
  if (engine_.options.scrub_rate == 0) return;
  thread_ = std::thread([this] { loop(); });
}

void Scrub::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<ScrubReport> Scrub::run_once() {
  ScrubReport report;
  damaged_ = unreadable_ = {};
  for (Position at;;) {
    VB_ASSIGN(const Walk walk, step(at, {}, report));
    if (walk != Walk::is_over) continue;
    tell_of_unnamed(report);
    return report;
  }
}

void Scrub::loop() {
  while (!stopping()) {
    ScrubReport report;
    damaged_ = unreadable_ = {};
    uint64_t saved_at = 0;
    Position at = load();
    for (Walk walk = Walk::goes_on; walk == Walk::goes_on && !stopping();) {
      const auto stepped = step(at, {.slow = true}, report);
      if (!stepped) {
        log::warn("scrub: {}", describe(stepped.error()));
        if (!wait(scrub_again_after)) break;
        continue;
      }
      walk = *stepped;
      if (report.bytes - saved_at >= save_every) {
        save(at);
        saved_at = report.bytes;
      }
    }
    tell_of_unnamed(report);
    if (stopping()) return save(at);
    counters().rounds.add();
    counters().last.set(engine_.options.clock->now_s());
    if (report.bytes != 0) {
      log::info("scrub: all read, {} since the start of the server or the round; {} blocks are damaged, {} unreadable",
                format_size(report.bytes), report.damaged_blocks, report.unreadable_blocks);
    }
    save({});
    wait(std::max<std::chrono::nanoseconds>(engine_.options.scrub_rest, rest_min));
  }
}

Scrub::Position Scrub::load() const {
  const auto value = engine_.index->get(Family::meta, keys::scrub());
  if (!value || value->size() != 1 + 8 + 8) return {};
  const auto blob = keys::parse_number(std::string_view(*value).substr(1, 8));
  const auto segment = keys::parse_number(std::string_view(*value).substr(9, 8));
  return {.in_index = value->front() == 'i', .blob = *blob, .segment = static_cast<uint32_t>(*segment)};
}

void Scrub::save(const Position& at) {
  Batch batch(*engine_.index);
  batch.put(Family::meta, keys::scrub(),
            std::string(1, at.in_index ? 'i' : 's') + keys::number(at.blob) + keys::number(at.segment));
  if (auto written = engine_.index->write(batch); !written) {
    log::warn("scrub: its place could not be noted: {}", describe(written.error()));
  }
}

Result<Scrub::Walk> Scrub::step(Position& at, Pace pace, ScrubReport& report) {
  if (at.in_index) return step_in_index(at, pace, report);
  VB_ASSIGN(const Walk walk, step_segment(at, pace, report));
  if (walk == Walk::is_over) at = {.in_index = true, .blob = 0, .segment = 0};
  return Walk::goes_on;
}

// Checks the first segment at or after `at`, which becomes the next position. No cursor is kept: it would hold old
// files of the index for a whole round.
Result<Scrub::Walk> Scrub::step_segment(Position& at, Pace pace, ScrubReport& report) {
  uint64_t blob = 0;
  uint32_t number = 0;
  {
    Cursor cursor = engine_.index->cursor(Family::segments, "");
    cursor.seek(keys::segment(at.blob, at.segment));
    if (const auto read = cursor.status(); !read) return pass(at, read.error(), report);
    if (!cursor.valid()) return Walk::is_over;
    const auto place = keys::parse_segment(cursor.key());
    if (!place) return pass(at, fail(Errc::corrupt_object, "scrub: key of a segment").error(), report);
    std::tie(blob, number) = *place;
  }
  at.blob = blob;
  at.segment = number + 1;
  // A blob that is being collected has no row any more; a pinned one stays, and its segment is read again under the
  // pin.
  if (!engine_.garbage->pin(blob)) return Walk::goes_on;
  auto checked = check_segment(blob, number, pace, report);
  engine_.garbage->unpin(blob);
  if (!checked) {
    if (checked.error() == Errc::slow_down) at.segment = number;  // no result for this segment: try again
    return std::unexpected(checked.error());
  }
  if (stopping()) at.segment = number;  // it may not have been read completely
  return Walk::goes_on;
}

Result<void> Scrub::check_segment(uint64_t blob, uint32_t number, Pace pace, ScrubReport& report) {
  auto value = engine_.index->get(Family::segments, keys::segment(blob, number));
  if (!value && value.error() == Errc::not_found) return {};  // removed before the pin
  if (!value) return std::unexpected(value.error());
  const auto segment = decode_segment(*value);
  if (!segment) {
    tell(blob, {.damaged = 1}, report);
    return {};
  }
  Wrong wrong;
  uint64_t start = 0;
  for (const Extent& extent : segment->extents) {
    VB_ASSIGN(const Wrong more, check_extent(*segment, extent, start, pace, report));
    wrong.damaged += more.damaged;
    wrong.unreadable += more.unreadable;
    start += extent.length;
    if (stopping()) break;
  }
  tell(blob, wrong, report);
  return {};
}

Result<void> Scrub::read(const Extent& extent, uint64_t done, MutableBytes into) {
  VB_ASSIGN(const auto volume, engine_.volumes->open(extent.volume));
  return read_fully(volume->file(), into, extent.offset + done);
}

// `start`: of the extent, in the segment.
Result<Scrub::Wrong> Scrub::check_extent(const Segment& segment, const Extent& extent, uint64_t start, Pace pace,
                                         ScrubReport& report) {
  if (memory_.empty()) memory_.resize(read_size + disk_alignment);
  void* aligned = memory_.data();
  size_t space = memory_.size();
  std::align(disk_alignment, read_size, aligned, space);
  Wrong wrong;
  for (uint64_t done = 0; done < extent.length && !stopping();) {
    const MutableBytes into(static_cast<std::byte*>(aligned), std::min<uint64_t>(read_size, extent.length - done));
    if (pace.slow) wait_while_busy();
    const Result<void> got = read(extent, done, into);
    if (!got && got.error() == Errc::slow_down) return std::unexpected(got.error());
    const bool refused = !got && !is_missing(got.error());
    if (refused) log::warn("scrub: volume {:016x}: {}", extent.volume, describe(got.error()));
    for (size_t in = 0; in < into.size(); in += block_size) {
      const Bytes block = Bytes(into).subspan(in, std::min<size_t>(block_size, into.size() - in));
      const size_t number = (start + done + in) / block_size;
      const bool last = number + 1 == segment.block_crcs.size();
      if (refused) {
        ++wrong.unreadable;
      } else if (!got || number >= segment.block_crcs.size() ||
                 !block_matches(block, segment.block_crcs[number], last)) {
        ++wrong.damaged;
      }
    }
    if (got) {
      report.bytes += into.size();
      counters().bytes.add(into.size());
    }
    done += into.size();
    rest_after(into.size(), pace);
  }
  return wrong;
}

Result<Scrub::Walk> Scrub::step_in_index(Position& at, Pace pace, ScrubReport& report) {
  uint64_t bytes = 0;
  Result<void> read;
  std::vector<uint64_t> damaged;
  size_t seen = 0;
  {
    Cursor cursor = engine_.index->cursor(Family::in_index, "");
    cursor.seek(keys::in_index(at.blob));
    for (; cursor.valid() && seen < inline_batch; cursor.next(), ++seen) {
      const auto blob = keys::parse_number(cursor.key());
      if (!blob) continue;  // the mark that Index::recover() leaves
      at.blob = *blob + 1;
      bytes += cursor.value().size();
      if (!decode_inline(cursor.value())) damaged.push_back(*blob);
    }
    read = cursor.status();
  }
  if (!read && seen == 0) return pass(at, read.error(), report);
  report.bytes += bytes;
  counters().bytes.add(bytes);
  for (const uint64_t blob : damaged) tell(blob, {.damaged = 1}, report);
  if (pace.slow) wait_while_busy();
  rest_after(bytes, pace);
  return seen == inline_batch || !read ? Walk::goes_on : Walk::is_over;
}

Result<void> Scrub::look(Family family, uint64_t from) const {
  Cursor cursor = engine_.index->cursor(family, "");
  cursor.seek(keys::number(from));
  VB_TRY(cursor.status());
  if (family != Family::segments || !cursor.valid() || keys::parse_segment(cursor.key())) return {};
  return fail(Errc::corrupt_object, "scrub: key of a segment");
}

// Damage takes a block of the index, or a table. Where it ends is found by steps that double, and then between the last
// two of them, so that nothing is passed over that can be read, unless another place is damaged as well. What was not
// read for another reason than damage is not given up as long as nothing behind it can be read: a round that saw
// nothing would be complete, and the next one far away.
Result<Scrub::Walk> Scrub::pass(Position& at, const Error& why, ScrubReport& report) {
  if (why == Errc::slow_down) return std::unexpected(why);
  Error last = why;
  const Family family = at.in_index ? Family::in_index : Family::segments;
  uint64_t unread = at.blob, next = at.blob;
  for (uint64_t step = 1;; step *= 2) {
    if (stopping()) return Walk::goes_on;
    const bool ends = step > UINT64_MAX - at.blob;
    next = ends ? UINT64_MAX : at.blob + step;
    if (ends) break;
    const auto readable = look(family, next);
    if (readable) break;
    last = readable.error();
    if (last == Errc::slow_down) return std::unexpected(last);
    unread = next;
  }
  if (next == UINT64_MAX && !(last == Errc::corrupt_object)) return std::unexpected(last);
  while (next - unread > 1) {
    const uint64_t middle = unread + (next - unread) / 2;
    const auto readable = look(family, middle);
    if (!readable && readable.error() == Errc::slow_down) return std::unexpected(readable.error());
    (readable ? next : unread) = middle;
  }
  const bool damaged = why == Errc::corrupt_object;
  log::error("scrub: the index cannot be read where it has {} of blobs {:x} to {:x}: {}",
             at.in_index ? "the bytes" : "the places", at.blob, unread, describe(why));
  count({.damaged = damaged ? 1u : 0u, .unreadable = damaged ? 0u : 1u}, report);
  at = {.in_index = at.in_index, .blob = next, .segment = 0};
  return next == UINT64_MAX ? Walk::is_over : Walk::goes_on;
}

void Scrub::count(const Wrong& wrong, ScrubReport& report) {
  report.damaged_blocks += wrong.damaged;
  report.unreadable_blocks += wrong.unreadable;
  counters().damaged.add(wrong.damaged);
  counters().unreadable.add(wrong.unreadable);
}

void Scrub::tell(uint64_t blob, const Wrong& wrong, ScrubReport& report) {
  if (wrong.damaged + wrong.unreadable == 0) return;
  // Nothing names it any more, and after a crash its space may have been used again already.
  if (engine_.index->get(Family::meta, keys::dead(blob))) return;
  count(wrong, report);
  if (wrong.damaged != 0) name(blob, "is damaged on disk", damaged_, report.objects, report);
  if (wrong.unreadable != 0) name(blob, "could not be read from disk", unreadable_, report.unreadable, report);
}

void Scrub::name(uint64_t blob, const char* what, Named& named, std::vector<std::string>& names, ScrubReport& report) {
  if (std::exchange(named.last, blob) == blob) return;  // another segment of it
  if (named.blobs == names_max) {
    ++report.unnamed;
    return;
  }
  ++named.blobs;
  std::string object = name_of(blob);
  if (!names.empty() && names.back() == object) return;  // another part of it
  names.push_back(std::move(object));
  log::error("scrub: {} {}", log::printable(names.back()), what);
}

// At the end: a disk that fails may damage millions of objects.
void Scrub::tell_of_unnamed(const ScrubReport& report) {
  if (report.unnamed == 0) return;
  log::error("scrub: {} more objects or parts are damaged or could not be read", report.unnamed);
}

namespace {

bool names(Index& index, const Index::Snapshot& snapshot, const ObjectRecord& record, uint64_t blob) {
  if (record.part_count == 0) return record.blob.id == blob;
  const auto value = index.get_of(snapshot, Family::uploads, keys::object_parts(record.id));
  if (!value) return false;
  const auto parts = decode_parts(*value);
  return parts && std::ranges::any_of(*parts, [&](const StoredPart& part) { return part.blob.id == blob; });
}

}  // namespace

// The object of a blob is found only by a walk: rot is rare. On one snapshot, since a version that becomes current, or
// stops being current, moves from one table to the other. An orderly stop waits for the scrub: the walk ends with it.
std::string Scrub::name_of(uint64_t blob) {
  constexpr const char* not_found_in_time = "an object that was not looked for, since the server stops";
  Index& index = *engine_.index;
  const Index::Snapshot snapshot = index.snapshot();
  for (const auto& bucket : engine_.buckets.all()) {
    const std::string prefix = keys::object_prefix(bucket->id);
    for (Cursor cursor = index.cursor_of(snapshot, Family::objects, prefix); cursor.valid(); cursor.next()) {
      if (stopping()) return not_found_in_time;
      const auto record = decode_object(cursor.value());
      if (record && names(index, snapshot, *record, blob)) {
        return bucket->name + "/" + std::string(cursor.key().substr(prefix.size()));
      }
    }
    Cursor cursor = index.cursor_of(snapshot, Family::versions, keys::version_bucket(bucket->id));
    for (; cursor.valid(); cursor.next()) {
      if (stopping()) return not_found_in_time;
      const auto record = decode_object(cursor.value());
      const auto key = keys::parse_version(cursor.key());
      if (!record || !key || !names(index, snapshot, *record, blob)) continue;
      return bucket->name + "/" + key->first + " version " +
             (record->info.version_id.empty() ? "null" : record->info.version_id);
    }
  }
  return "a part of an upload that is not completed, or of an object that goes";
}

void Scrub::rest_after(uint64_t bytes, Pace pace) {
  if (!pace.slow || bytes == 0) return;
  wait(std::chrono::nanoseconds(bytes * 1'000'000'000 / engine_.options.scrub_rate));
}

void Scrub::wait_while_busy() {
  for (auto waited = 0ms; waited < busy_wait_max; waited += busy_look) {
    const uint64_t now = engine_.io->operations();
    const uint64_t before = std::exchange(operations_seen_, now);
    if (now - before <= busy_operations || !wait(busy_look)) return;
  }
}

bool Scrub::wait(std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [this] { return stopping_; });
}

}  // namespace verbena::store::local
