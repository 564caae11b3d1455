// What the metrics say of the process as a whole: what it is, and how full its disk is.
#pragma once

#include <filesystem>

namespace verbena::server {

// verbena_build_info; verbena_store_free_bytes and verbena_store_size_bytes of the file system that `data` lies on,
// read when somebody asks for the metrics. Empty: no disk. Of several servers in one process the last counts.
void export_process_metrics(const std::filesystem::path& data);

}  // namespace verbena::server
