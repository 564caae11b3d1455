#include "store/local/data_io.h"

#include <boost/asio/this_coro.hpp>

#include <cerrno>

#include "base/metrics.h"
#include "store/local/disk_times.h"

namespace verbena::store::local {
namespace {

constexpr size_t cached_size_max = 256 * KiB;  // longer copies would delay the core

struct Ways {
  metrics::Counter& ring = of("io_uring");
  metrics::Counter& threads = of("threads");
  metrics::Counter& page_cache = of("page_cache");

  static Ways& get() {
    static Ways all;
    return all;
  }

 private:
  static metrics::Counter& of(const char* way) {
    return metrics::counter("verbena_store_volume_reads_total", "Reads of volumes, by path", {{"way", way}});
  }
};

// True for an error of the disk itself, which takes long enough once. Any other error is retried by a thread's read,
// which reports its cause more precisely than the ring.
bool is_final(int error) { return error == EIO; }

}  // namespace

Task<Result<size_t>> DataIo::read_by_ring(IoRing& ring, File& file, int fd, uint64_t offset, MutableBytes into) {
  const metrics::Timer timer(DiskTimes::get().read);
  size_t done = 0;
  while (done < into.size()) {
    const MutableBytes rest = into.subspan(done);
    const auto place = file.ring_place(offset + done, rest.size());
    if (!place) break;
    const int n = file.ring_read(rest, offset + done, co_await ring.read(fd, rest, *place));
    if (n < 0 && is_final(-n)) co_return fail(Errc::io_error, "file: read by io_uring", -n);
    if (n < 0) break;
    if (n == 0) co_return fail(Errc::io_error, "file: ends early");
    // As in read_fully(): a short read may stop anywhere.
    const size_t end = done + static_cast<size_t>(n);
    const size_t next = end < into.size() ? align_down(end) : end;
    if (next == done) break;
    done = next;
  }
  co_return done;
}

Task<Result<void>> DataIo::read(std::shared_ptr<Volume> volume, uint64_t offset, MutableBytes into) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  File& file = volume->file();
  size_t done = 0;
  if (const int fd = file.ring_descriptor(); fd >= 0) {
    IoRing* const ring = IoRing::of(co_await boost::asio::this_coro::executor);
    if (ring != nullptr) {
      VB_CO_ASSIGN(done, co_await read_by_ring(*ring, file, fd, offset, into));
      if (done == into.size()) Ways::get().ring.add();
    }
  } else if (into.size() <= cached_size_max) {
    const auto cached = file.pread_cached(into, offset);
    if (cached) done = *cached;
    if (done == into.size()) Ways::get().page_cache.add();
  }
  if (done == into.size()) co_return Result<void>{};
  Ways::get().threads.add();
  auto work = [volume, offset, into, done] {
    const metrics::Timer timer(DiskTimes::get().read);
    return read_fully(volume->file(), into.subspan(done), offset + done);
  };
  co_return co_await pool_.run("volume read", std::move(work));
}

Task<Result<size_t>> DataIo::write_by_ring(IoRing& ring, File& file, int fd, uint64_t offset, Bytes from) {
  const metrics::Timer timer(DiskTimes::get().write);
  size_t done = 0;
  while (done < from.size()) {
    const Bytes rest = from.subspan(done);
    const auto place = file.ring_place(offset + done, rest.size());
    if (!place) break;
    const int n = file.ring_write(rest, offset + done, co_await ring.write(fd, rest, *place));
    if (n < 0 && is_final(-n)) co_return fail(Errc::io_error, "file: write by io_uring", -n);
    if (n <= 0) break;
    const size_t end = done + static_cast<size_t>(n);
    const size_t next = end < from.size() ? align_down(end) : end;
    if (next == done) break;
    done = next;
  }
  co_return done;
}

Task<Result<void>> DataIo::write(std::shared_ptr<Volume> volume, uint64_t offset, Bytes from, bool in_place) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  size_t done = 0;
  if (const int fd = volume->file().ring_descriptor(); in_place && fd >= 0 && volume->file().takes_writes()) {
    IoRing* const ring = IoRing::of(co_await boost::asio::this_coro::executor);
    if (ring != nullptr) {
      VB_CO_ASSIGN(done, co_await write_by_ring(*ring, volume->file(), fd, offset, from));
      if (done == from.size()) co_return Result<void>{};
    }
  }
  auto work = [volume, offset, from, done] {
    const metrics::Timer timer(DiskTimes::get().write);
    return write_fully(volume->file(), from.subspan(done), offset + done);
  };
  co_return co_await pool_.run("volume write", std::move(work));
}

}  // namespace verbena::store::local
