#include "simulator/local_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "simulator/scheduler.h"
#include "store/hot_store.h"
#include "store/local/fsck.h"
#include "store/local/local_store.h"

namespace verbena::simulator {
namespace {

using store::local::FaultyFileSystem;

using Fault = FaultyFileSystem::Fault;

uint64_t draw(uint64_t below) { return Scheduler::get().random() % below; }

}  // namespace

Result<std::unique_ptr<store::Store>> LocalEngine::open(size_t /*server*/, memory::Arena& arena, BlockingPool& pool,
                                                        std::string& trouble) {
  auto opened = open_below(arena, pool, trouble);
  if (!opened || !hot_) return opened;
  under_ = std::move(*opened);
  return std::make_unique<store::HotStore>(*under_, store::HotStore::Options{.arena = &arena, .capacity = 8 * MiB});
}

// Where a fault falls into a start, that start may fail, and the next one must not; nor may one that it came through
// leave anything behind that the next one stumbles over.
Result<std::unique_ptr<store::Store>> LocalEngine::open_below(memory::Arena& arena, BlockingPool& pool,
                                                              std::string& trouble) {
  while (std::exchange(start_fails_, false)) {
    constexpr std::array faults{Fault::crash, Fault::crash, Fault::crash, Fault::io_error, Fault::no_space};
    constexpr std::array<uint64_t, 4> operations{4, 16, 60, 250};
    faulty_.fail_at(draw(operations[draw(operations.size())]), faults[draw(faults.size())]);
    auto opened = open_once(arena, pool, trouble);
    const bool happened = faulty_.fault_happened();
    if (!opened && !happened) return opened;
    opened = fail(Errc::closed);
    was_orderly_ = false;
    lose_power();
    if (auto wrong = check(); !wrong.empty()) {
      trouble = "after a start that failed: " + wrong;
      return fail(Errc::corrupt_object, "start");
    }
    start_fails_ = draw(2) == 0;
  }
  return open_once(arena, pool, trouble);
}

Result<std::unique_ptr<store::Store>> LocalEngine::open_once(memory::Arena& arena, BlockingPool& pool,
                                                             std::string& trouble) {
  store::local::Options options;
  options.directory = "/store";
  options.arena = &arena;
  options.pool = &pool;
  options.fs = &disk_;
  options.volume_size_max = 4 * MiB;
  options.allocate_step = 0;
  options.free_bytes_min = 0;
  keeps_free_ = draw(2) == 0;
  options.keep_free = keeps_free_ ? 16 * MiB : 0;
  options.scrub_rate = 64 * MiB;
  options.scrub_rest = std::chrono::seconds(1);
  options.trouble = &trouble;
  return store::local::LocalStore::open(options);
}

void LocalEngine::begin_round() {
  constexpr std::array ends{End::orderly,     End::orderly,     End::crash, End::crash, End::no_space,
                            End::write_error, End::read_errors, End::crash, End::full};
  end_ = ends[draw(ends.size())];
  if (end_ == End::crash) faulty_.fail_at(draw(1500), FaultyFileSystem::Fault::crash);
  if (end_ == End::no_space) faulty_.fail_at(draw(800), FaultyFileSystem::Fault::no_space);
  if (end_ == End::write_error) fail_write();
  if (end_ == End::read_errors) disk_.fail_reads(draw(40), 1 + draw(4));
  is_full_ = end_ == End::full;
  if (is_full_) faulty_.set_capacity(faulty_.used_bytes() + draw(200'000));
  loses_power_ = end_ == End::crash || draw(2) == 0;
  start_fails_ = draw(4) == 0;
}

// Of any kind, or a write or a sync of one folder's files.
void LocalEngine::fail_write() {
  const uint64_t choice = draw(4);
  if (choice == 0) return faulty_.fail_at(draw(800), Fault::io_error);
  faulty_.fail_at(draw(250), Fault::io_error, choice == 1 ? "/store/index" : "/store/volumes");
}

std::string LocalEngine::fate() const {
  constexpr const char* names[] = {"orderly", "a crash", "no space", "an error of a write", "errors of reads", "full"};
  return damaged_ ? "damage" : names[static_cast<size_t>(end_)];
}

bool LocalEngine::end_round() {
  has_kept_ = std::exchange(kept_before_, keeps_free_) || keeps_free_;
  was_orderly_ = end_ == End::orderly;
  may_have_lost_ = befell() || failed_to_sync_;
  failed_to_sync_ = failed_to_sync_ || (end_ == End::write_error && befell());
  if (std::exchange(is_full_, false)) faulty_.set_capacity(1 * TiB);
  if (loses_power_) lose_power();
  faulty_.fail_at(UINT64_MAX, Fault::none);
  disk_.fail_reads(UINT64_MAX, 0);
  return std::exchange(loses_power_, false);
}

// The disk keeps what a disk may keep. Also after an orderly end: what was acknowledged is there whatever else is lost.
void LocalEngine::lose_power() {
  using Loss = FaultyFileSystem::Loss;
  const Loss loss = std::array{Loss::nothing, Loss::unsynced, Loss::torn}[draw(3)];
  faulty_.crash(loss, Scheduler::get().random());
  failed_to_sync_ = failed_to_sync_ && loss == Loss::nothing;
}

bool LocalEngine::damage() {
  damaged_ = true;
  start_fails_ = false;
  data_alone_ = !std::exchange(decays_, false);
  damage_pages();
  const auto report = store::local::fsck({.directory = "/store", .fs = &faulty_});
  data_alone_ = data_alone_ && report.has_value();
  for (size_t at = 0; report && at < report->lost.size(); ++at) lost_.push_back(report->lost[at].name);
  return true;
}

bool LocalEngine::hurts(const std::string& name) const {
  return std::ranges::any_of(lost_, [&](const std::string& one) { return one.starts_with(name); });
}

bool LocalEngine::decay() {
  damaged_ = decays_ = true;
  end_ = End::orderly;
  damage_pages();
  return true;
}

void LocalEngine::damage_pages() {
  const bool of_index = draw(4) == 0;
  const char* const folder = of_index ? "/store/index" : "/store/volumes";
  data_alone_ = data_alone_ && !of_index;
  for (uint64_t pages = 1 + draw(6); pages > 0; --pages) damage_page(folder);
}

// A bit of it is another one, or it has the bytes that were written to another page.
void LocalEngine::damage_page(const std::filesystem::path& folder) {
  constexpr size_t page_size = 4096;
  const auto names = faulty_.list(folder);
  if (!names || names->empty()) return;
  const auto path = folder / (*names)[draw(names->size())];
  const auto stat = faulty_.stat(path);
  if (!stat || stat->size < page_size) return;
  const uint64_t pages = stat->size / page_size;
  if (draw(2) == 0 || pages == 1) return faulty_.flip_bit(path, draw(stat->size));
  const auto file = faulty_.open(path, {.write = true});
  std::vector<std::byte> page(page_size);
  if (!file || !(*file)->pread(page, draw(pages) * page_size)) return;
  (void)(*file)->pwrite(page, draw(pages) * page_size);
}

uint64_t LocalEngine::allocated() {
  const std::filesystem::path folder = "/store/volumes";
  uint64_t bytes = 0;
  const auto names = faulty_.list(folder);
  for (size_t at = 0; names && at < names->size(); ++at) {
    const auto stat = faulty_.stat(folder / (*names)[at]);
    bytes += stat ? stat->allocated_bytes : 0;
  }
  return bytes;
}

// Whether all that is wrong is objects of the bucket with `memory` durability whose bytes a fault took, in the last
// round or in one before: the scene of that bucket judges which it may have.
bool LocalEngine::is_excused(const store::local::FsckReport& report) {
  std::set<std::string> lost;
  for (const auto& loss : report.lost) {
    if (!loss.name.starts_with("quick/") || (!may_have_lost_ && !lost_of_memory_.contains(loss.name))) return false;
    lost.insert(loss.name);
  }
  lost_of_memory_ = std::move(lost);
  return report.index.empty() && report.refusals.empty() && report.lost.size() == report.lost_count;
}

std::string LocalEngine::check() {
  auto report = store::local::fsck({.directory = "/store", .fs = &disk_});
  if (!report) return "fsck: " + describe(report.error());
  const bool damaged = !is_excused(*report) && report->damaged();
  if (!damaged && !was_orderly_) return {};
  if (!damaged && report->orphan_extents == 0 && (has_kept_ || allocated() <= report->extent_bytes)) return {};
  if (!damaged) {
    return fmt::format(
        "after an orderly end {} extents of {} bytes have no owner, and the volumes have {} bytes for {}",
        report->orphan_extents, report->orphan_bytes, allocated(), report->extent_bytes);
  }
  std::string text = fmt::format("fsck: {} lost", report->lost_count);
  for (const std::string& line : report->index) text += "\n  " + line;
  for (const auto& loss : report->lost) text += "\n  " + loss.name + ": " + loss.why;
  return text;
}

}  // namespace verbena::simulator
