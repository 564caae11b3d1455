// Small files of the server's own (mode 0600) that are replaced whole and must outlast a crash. Blocks.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace verbena {

// The text is written beside `path`, made durable and renamed: a crash leaves the old file or the new one. After a
// success the new one is there, and sync_folder_of() makes sure that it stays. The error's context is what could not be
// done ("create", "write", "rename to"); insufficient_storage, else io_error.
Result<void> put_private_file(const std::filesystem::path& path, std::string_view text);

// Makes the names in `path`'s folder durable. Context "make durable"; io_error.
Result<void> sync_folder_of(const std::filesystem::path& path);

// Both.
Result<void> replace_private_file(const std::filesystem::path& path, std::string_view text);

}  // namespace verbena
