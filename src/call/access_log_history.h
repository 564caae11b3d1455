// The lines kept when an access log's oldest file is removed: those of callers with few lines. They are kept in a
// separate, bounded file, so that a caller with many lines displaces only its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::call {

// Beside the log's files: FILE.kept.
std::string kept_path(const std::string& log);

// Adds lines of `oldest` to `kept`: an eighth of the file at most, shared so that a caller with fewer lines than others
// loses none as long as there is room. When `kept` is longer than `size_max`, it is reduced in the same way, keeping
// each caller's newest lines. Files that cannot be read or written are left unchanged.
void keep_history(const std::string& oldest, const std::string& kept, uint64_t size_max);

// The largest c for which the sum of min(size, c) is at most `room`: callers with no more than c lose nothing.
uint64_t share_of_room(std::vector<uint64_t> sizes, uint64_t room);

}  // namespace verbena::call
