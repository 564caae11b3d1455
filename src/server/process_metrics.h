// Metrics of the process as a whole: its version, and its disk's free space.
#pragma once

#include <filesystem>

namespace verbena::server {

// verbena_build_info; verbena_store_free_bytes and verbena_store_size_bytes of the file system that contains `data`,
// read at each exposition. Empty: no disk. Of several servers in one process the last counts.
void export_process_metrics(const std::filesystem::path& data);

}  // namespace verbena::server
