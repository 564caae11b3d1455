// A block device as all its volumes share it: one flush serves them all, and after a failure that leaves unknown what
// the device has, nothing is written to it any more.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "store/local/device_layout.h"

namespace verbena::store::local {

class SharedDevice {
 public:
  SharedDevice(std::string name, std::unique_ptr<File> file);
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  const std::string& name() const { return name_; }
  File& file() { return *file_; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Nothing is written from now on. `what` ends a sentence that begins with the device's name.
  void give_up(std::string_view what);

  // insufficient_storage: a thin device has no room for its blocks. One that has become smaller is given up.
  Result<size_t> write(Bytes from, uint64_t place);
  // A read of a volume's bytes found the device's end. Does not wait for the disk. The error to answer: what is there
  // is not known, so it is not damage.
  Error note_end();
  // Bytes of a volume were written, by write() or the ring.
  void note_written() {
    volume_writes_.fetch_add(1, std::memory_order_acq_rel);
    written_.fetch_add(1, std::memory_order_acq_rel);
  }
  uint64_t volume_writes() const { return volume_writes_.load(std::memory_order_acquire); }
  // Everything written before the call is durable. After one that failed the device may have lost any write since the
  // last good one, and the kernel reports that only once: so none succeeds after it.
  Result<void> flush();

  // A block of the superblock or the table, durably. A write that failed may have been done, then or later, so what
  // follows must not rest on either: the device is given up.
  Result<void> put_block(const DeviceBlock& block, uint64_t place);
  // Writes a block that the device already has at another place. Not flushed. A failure misleads no reader, so the
  // device is not given up.
  Result<void> put_copy(const DeviceBlock& block, uint64_t place);

 private:
  bool became_smaller();
  std::unexpected<Error> given_up() const { return fail(Errc::io_error, "device: given up after a failure"); }

  const std::string name_;
  const std::unique_ptr<File> file_;
  const uint64_t size_;  // when it was opened; 0: it was not told
  std::mutex flush_mutex_;
  std::atomic<uint64_t> written_{1};  // an earlier process may have left unflushed writes
  std::atomic<uint64_t> volume_writes_{0};
  uint64_t flushed_ = 0;
  std::atomic<bool> failed_{false};
};

}  // namespace verbena::store::local
