// One object to or from a file, standard input or standard output.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "cli/progress.h"
#include "verbena/client.h"

namespace verbena::cli {

// Uploads `path` ("-": standard input). A local failure is local_error or, for a missing file, no_such_key. Nothing is
// stored of a file whose size or time of modification changed while it was read (local_error). One that changed after
// that and before it was stored is uploaded again, thrice at most: the object would be newer than the file and hold
// less. Then (local_error) an object of an earlier state is there.
Outcome<PutReply> upload(const Client& client, const std::string& path, const std::string& bucket,
                         const std::string& key, const PutOptions& options, bool progress);

// Where the caller got the path of a download from.
enum class PathFrom : uint8_t {
  caller,  // it was named: what is there and is no file (a FIFO, a device, /dev/stdout) is written to
  key,     // of an object in a tree: only a file may be there, or nothing
};

// Downloads to `path` ("-": standard output). A file appears whole or not at all: bytes go to a temporary file in the
// same folder, which is renamed at the end. Objects too large for one buffer are fetched in ranges of one version,
// checked against the object's checksum if it has one.
Outcome<GetReply> download(const Client& client, const std::string& bucket, const std::string& key,
                           const std::string& path, PathFrom path_from, bool progress);

// Stores bytes as the file `path` in the same way, for which PathFrom::key holds.
Outcome<> save_file(const std::string& path, std::span<const std::byte> bytes);

// The path of an object in a recursive download, or nullopt when its key would leave `folder` ("../x", "/etc/x",
// "a//b").
std::optional<std::filesystem::path> local_path(const std::filesystem::path& folder, std::string_view relative_key);

}  // namespace verbena::cli
