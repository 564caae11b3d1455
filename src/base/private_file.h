// Small files with restricted access: the server's own (mode 0600), which are replaced as a whole and must survive a
// crash, and secrets that an operator has put into files. Blocks.
#pragma once

#include <sys/types.h>

#include <expected>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"

namespace verbena {

// Writes the text beside `path`, makes it durable and renames it: a crash leaves the old file or the new one. After a
// success the new one is visible, and sync_folder_of() makes its name durable. The error's context is the failed step
// ("create", "write", "rename to"); insufficient_storage, else io_error.
Result<void> put_private_file(const std::filesystem::path& path, std::string_view text);

// Makes the names in `path`'s folder durable. Context "make durable"; io_error.
Result<void> sync_folder_of(const std::filesystem::path& path);

// Both.
Result<void> replace_private_file(const std::filesystem::path& path, std::string_view text);
// Likewise; a file that is replaced leaves its owner, where this process may give it, and its own part of the mode
// (400). Of a link, the file that it names is replaced.
Result<void> replace_private_file_alike(const std::filesystem::path& path, std::string_view text);

// Bits that a secret file's mode must not have.
inline constexpr mode_t not_for_any_other = 0077;  // 600 and less: the server's own
inline constexpr mode_t not_for_others = 0037;     // 600, 640 and less
inline constexpr mode_t not_for_everybody = 0007;  // any access for the group
inline constexpr mode_t for_whomever = 0;          // any: containers choose the modes of mounted secrets

// Reads a whole regular file; others (a pipe, a device) fail without waiting. The error continues a sentence that began
// with the file's name, and contains nothing of the file: "is open to others: chmod 600 it".
std::expected<Secret, std::string> read_secret_file(const std::filesystem::path& path, size_t bytes_max,
                                                    mode_t not_set);
// For a one-line file: without the line break that editors and `echo` leave at its end.
std::expected<Secret, std::string> read_secret_line(const std::filesystem::path& path, size_t bytes_max,
                                                    mode_t not_set);

}  // namespace verbena
