// Block devices of the machine, for the volumes of data.device.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <memory>
#include <string>

#include "store/local/file_system.h"

namespace verbena::store::local {

enum class DeviceUse : uint8_t {
  look,  // read alone, beside whatever uses it
  read,  // read, and no other program may use it
  own,   // likewise, and write
};

// punch() is a discard.
class BlockDevice : public File {
 public:
  // After the device was overwritten: the kernel looks for partitions again, so that those of before go. Where the
  // device has none, or may not, nothing happens.
  virtual void read_partitions_again() = 0;
};

// `own` goes past the page cache. `trouble` receives a sentence: no block device, a zoned one, one that is mounted or
// in use, blocks larger than ours. Waits up to 10 seconds for programs that have it locked, as udev does to look at it.
Result<std::unique_ptr<BlockDevice>> open_block_device(const std::filesystem::path& path, DeviceUse use,
                                                       std::string& trouble);

// What libblkid recognizes in an open file; as File::foreign_contents(). The descriptor may be one for direct I/O.
std::expected<std::string, std::string> foreign_contents(int fd);

// Takes the lock of an open file, if need be after a wait. False, with errno: another holder kept it all that time.
bool lock_within(int fd, int operation, std::chrono::milliseconds time);

}  // namespace verbena::store::local
