// The kernel's counters of RDMA ports (sysfs: counters and hw_counters) as metrics.
#pragma once

#include <filesystem>

namespace verbena::fabric::ofi {

// Reads the counters once; export_port_counters() (ofi.h) calls this before each exposition, for the devices then
// present:
//   verbena_rdma_port_counter_total{device,port,counter}   the kernel's names, its units (port_*_data: 4 octets)
//   verbena_rdma_port_active{device,port}                  1: the port is ACTIVE
// Names come from the kernel and are bounded nevertheless.
void read_port_counters(const std::filesystem::path& sysfs);

}  // namespace verbena::fabric::ofi
