// Block devices of the machine, for the volumes of data.device.
#pragma once

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

// `own` goes past the page cache. `trouble` receives a sentence: no block device, a zoned one, one that is mounted or
// in use, blocks larger than ours. punch() of the file is a discard.
Result<std::unique_ptr<File>> open_block_device(const std::filesystem::path& path, DeviceUse use, std::string& trouble);

// What is on a device, as libblkid recognizes it: "ext4 (a file system)", "a gpt partition table"; empty: nothing that
// it knows. The error is a sentence: it cannot be told.
std::expected<std::string, std::string> foreign_contents(const std::filesystem::path& path);

}  // namespace verbena::store::local
