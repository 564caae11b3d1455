#include "store/local/local_store.h"

#include "store/local/engine.h"
#include "store/local/record.h"
#include "store/local/scrub.h"
#include "store/local/write_behind.h"

namespace verbena::store::local {

LocalStore::LocalStore(std::shared_ptr<Engine> engine) : EngineStore(engine), engine_(std::move(engine)) {}

Result<std::unique_ptr<LocalStore>> LocalStore::open(Options options) {
  if (options.arena == nullptr || options.pool == nullptr) return fail(Errc::invalid_argument, "store: options");
  if (options.volume_size_max < 1 * MiB) return fail(Errc::invalid_argument, "store: volume_size_max");
  auto engine = std::make_shared<Engine>(std::move(options));
  VB_TRY(engine->start());
  return std::unique_ptr<LocalStore>(new LocalStore(std::move(engine)));
}

LocalStore::~LocalStore() { engine_->stop(); }

void LocalStore::drain() {
  engine_->behind->flush();
  engine_->garbage->drain();
}

Result<ScrubReport> LocalStore::scrub() {
  drain();
  return Scrub(*engine_).run_once();
}

// Counts the index's live bytes, then the files' blocks: statistics, which may not match exactly.
Result<LocalStore::Usage> LocalStore::usage() {
  engine_->behind->flush();
  Usage usage;
  Cursor cursor = engine_->index->cursor(Family::extents, "");
  for (; cursor.valid(); cursor.next()) {
    if (cursor.key().empty()) continue;  // the mark that Index::recover() leaves
    VB_ASSIGN(ExtentOwner owner, decode_extent_owner(cursor.value()));
    usage.live_bytes += owner.length;
  }
  VB_TRY(cursor.status());
  usage.kept_bytes = engine_->volumes->kept_bytes();
  VB_ASSIGN(auto ids, engine_->volumes->on_disk());
  for (uint64_t id : ids) {
    auto stat = engine_->volume_fs->stat(engine_->volumes->path(id));
    if (!stat) continue;  // unlinked meanwhile
    usage.allocated_bytes += stat->allocated_bytes;
    ++usage.volumes;
  }
  return usage;
}

}  // namespace verbena::store::local
