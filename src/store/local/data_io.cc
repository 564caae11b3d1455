#include "store/local/data_io.h"

namespace verbena::store::local {

Task<Result<void>> DataIo::read(std::shared_ptr<Volume> volume, uint64_t offset, MutableBytes into) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  auto work = [volume, offset, into] { return read_fully(volume->file(), into, offset); };
  co_return co_await pool_.run("volume read", std::move(work));
}

Task<Result<void>> DataIo::write(std::shared_ptr<Volume> volume, uint64_t offset, Bytes from) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  auto work = [volume, offset, from] { return write_fully(volume->file(), from, offset); };
  co_return co_await pool_.run("volume write", std::move(work));
}

}  // namespace verbena::store::local
