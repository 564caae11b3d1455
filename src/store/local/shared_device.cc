#include "store/local/shared_device.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "store/local/aligned_bytes.h"
#include "store/local/disk_times.h"

namespace verbena::store::local {

SharedDevice::SharedDevice(std::string name, std::unique_ptr<File> file)
    : name_(std::move(name)), file_(std::move(file)), size_(file_->stat().value_or(FileStat{}).size) {}

SharedDevice::~SharedDevice() {
  if (failed()) DiskTrouble::get().device_failed.set(0);
}

void SharedDevice::give_up(std::string_view what) {
  if (failed_.exchange(true, std::memory_order_acq_rel)) return;
  DiskTrouble::get().device_failed.set(1);
  log::error(
      "store: {} {}. What was not acknowledged by then is refused, and nothing is written to it until the server "
      "starts again; reads go on",
      name_, what);
}

Result<size_t> SharedDevice::write(Bytes from, uint64_t place) {
  if (failed()) return given_up();
  auto done = file_->pwrite(from, place);
  note_written();
  if (!done && done.error() == Errc::insufficient_storage && became_smaller()) return given_up();
  return done;
}

Error SharedDevice::note_end() {
  (void)became_smaller();
  return Error{Errc::io_error, EIO, "device: ends early"};
}

bool SharedDevice::became_smaller() {
  const auto now = file_->stat();
  if (!now || now->size >= size_) return false;
  give_up("has become smaller: it has " + format_size(now->size) + ", and had " + format_size(size_));
  return true;
}

Result<void> SharedDevice::flush() {
  const std::lock_guard lock(flush_mutex_);
  if (failed()) return given_up();
  const uint64_t upto = written_.load(std::memory_order_acquire);
  if (flushed_ == upto) return {};
  if (auto done = file_->datasync(); !done) {
    give_up("did not flush: " + describe(done.error()));
    return done;
  }
  flushed_ = upto;
  return {};
}

Result<void> SharedDevice::put_block(const DeviceBlock& block, uint64_t place) {
  if (auto done = put_copy(block, place); !done) {
    give_up("did not take a change of its table: " + describe(done.error()));
    return done;
  }
  return flush();
}

Result<void> SharedDevice::put_copy(const DeviceBlock& block, uint64_t place) {
  if (failed()) return given_up();
  AlignedBytes memory(device_block);
  std::ranges::copy(block, memory.bytes().begin());
  auto done = write_fully(*file_, memory.bytes(), place);
  written_.fetch_add(1, std::memory_order_acq_rel);
  return done;
}

}  // namespace verbena::store::local
