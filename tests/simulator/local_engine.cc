#include "simulator/local_engine.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "simulator/scheduler.h"
#include "store/local/fsck.h"
#include "store/local/local_store.h"

namespace verbena::simulator {
namespace {

using store::local::FaultyFileSystem;

uint64_t draw(uint64_t below) { return Scheduler::get().random() % below; }

}  // namespace

Result<std::unique_ptr<store::Store>> LocalEngine::open(size_t /*server*/, memory::Arena& arena, BlockingPool& pool,
                                                        std::string& trouble) {
  store::local::Options options;
  options.directory = "/store";
  options.arena = &arena;
  options.pool = &pool;
  options.fs = &disk_;
  options.volume_size_max = 4 * MiB;
  options.allocate_step = 0;
  options.free_bytes_min = 0;
  options.keep_free = draw(3) == 0 ? 0 : 16 * MiB;  // one start may keep what the next gives back
  options.scrub_rate = 64 * MiB;
  options.scrub_rest = std::chrono::seconds(1);
  options.trouble = &trouble;
  return store::local::LocalStore::open(options);
}

void LocalEngine::begin_round() {
  constexpr std::array ends{End::orderly,  End::orderly,     End::crash,       End::crash,
                            End::no_space, End::write_error, End::read_errors, End::crash};
  end_ = ends[draw(ends.size())];
  if (end_ == End::crash) faulty_.fail_at(draw(1500), FaultyFileSystem::Fault::crash);
  if (end_ == End::no_space) faulty_.fail_at(draw(800), FaultyFileSystem::Fault::no_space);
  if (end_ == End::write_error) faulty_.fail_at(draw(800), FaultyFileSystem::Fault::io_error);
  if (end_ == End::read_errors) disk_.fail_reads(draw(40), 1 + draw(4));
}

std::string LocalEngine::fate() const {
  constexpr const char* names[] = {"orderly", "a crash", "no space", "an error of a write", "errors of reads"};
  return damaged_ ? "damage" : names[static_cast<size_t>(end_)];
}

bool LocalEngine::end_round() {
  if (end_ == End::crash) {
    const auto loss = std::array{FaultyFileSystem::Loss::nothing, FaultyFileSystem::Loss::unsynced,
                                 FaultyFileSystem::Loss::torn}[draw(3)];
    faulty_.crash(loss, Scheduler::get().random());
  }
  faulty_.fail_at(UINT64_MAX, FaultyFileSystem::Fault::none);
  disk_.fail_reads(UINT64_MAX, 0);
  return end_ == End::crash;
}

bool LocalEngine::damage() {
  damaged_ = true;
  decays_ = false;
  damage_pages();
  return true;
}

bool LocalEngine::decay() {
  damaged_ = decays_ = true;
  end_ = End::orderly;
  damage_pages();
  return true;
}

void LocalEngine::damage_pages() {
  const char* const folder = draw(4) == 0 ? "/store/index" : "/store/volumes";
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

std::string LocalEngine::check() {
  auto report = store::local::fsck({.directory = "/store", .fs = &disk_});
  if (!report) return "fsck: " + describe(report.error());
  if (!report->damaged()) return {};
  std::string text = fmt::format("fsck: {} lost", report->lost_count);
  for (const std::string& line : report->index) text += "\n  " + line;
  for (const auto& loss : report->lost) text += "\n  " + loss.name + ": " + loss.why;
  return text;
}

}  // namespace verbena::simulator
