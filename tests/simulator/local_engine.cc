#include "simulator/local_engine.h"

#include <fmt/format.h>

#include <array>

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
  options.scrub_rate = 64 * MiB;
  options.scrub_rest = std::chrono::seconds(1);
  options.trouble = &trouble;
  return store::local::LocalStore::open(options);
}

void LocalEngine::begin_round() {
  end_ = std::array{End::orderly, End::crash, End::crash, End::no_space}[draw(4)];
  if (end_ == End::crash) faulty_.fail_at(draw(1500), FaultyFileSystem::Fault::crash);
  if (end_ == End::no_space) faulty_.fail_at(draw(800), FaultyFileSystem::Fault::no_space);
}

bool LocalEngine::end_round() {
  if (end_ == End::crash) {
    const auto loss = std::array{FaultyFileSystem::Loss::nothing, FaultyFileSystem::Loss::unsynced,
                                 FaultyFileSystem::Loss::torn}[draw(3)];
    faulty_.crash(loss, Scheduler::get().random());
  }
  faulty_.fail_at(UINT64_MAX, FaultyFileSystem::Fault::none);
  return end_ == End::crash;
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
