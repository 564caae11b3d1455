// Small files that are not for everybody: the server's own (mode 0600), which are replaced whole and must outlast a
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

// The text is written beside `path`, made durable and renamed: a crash leaves the old file or the new one. After a
// success the new one is there, and sync_folder_of() makes sure that it stays. The error's context is what could not be
// done ("create", "write", "rename to"); insufficient_storage, else io_error.
Result<void> put_private_file(const std::filesystem::path& path, std::string_view text);

// Makes the names in `path`'s folder durable. Context "make durable"; io_error.
Result<void> sync_folder_of(const std::filesystem::path& path);

// Both.
Result<void> replace_private_file(const std::filesystem::path& path, std::string_view text);

// Whose secrets a file may hold: what of its mode must not be set.
inline constexpr mode_t not_for_any_other = 0077;  // 600 and less: the server's own
inline constexpr mode_t not_for_others = 0037;     // 600, 640 and less
inline constexpr mode_t not_for_everybody = 0007;  // a group may do with it what it likes
inline constexpr mode_t for_whomever = 0;          // containers hand theirs over as they like

// The whole of a regular file; what is none (a pipe, a device) keeps nobody waiting. The error continues a sentence
// that began with the file's name, and has nothing of its content: "is open to others: chmod 600 it".
std::expected<Secret, std::string> read_secret_file(const std::filesystem::path& path, size_t bytes_max,
                                                    mode_t not_set);
// Of one that holds a line: without the line break that editors and `echo` leave at its end.
std::expected<Secret, std::string> read_secret_line(const std::filesystem::path& path, size_t bytes_max,
                                                    mode_t not_set);

}  // namespace verbena
