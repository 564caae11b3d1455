// The kernel's counters of RDMA ports (sysfs: counters and hw_counters) as metrics.
#pragma once

#include <filesystem>

namespace verbena::fabric::ofi {

// export_port_counters() (ofi.h) reads them before each exposition of the metrics, from devices that are there then:
//   verbena_rdma_port_counter_total{device,port,counter}   the kernel's names, its units (port_*_data: 4 octets)
//   verbena_rdma_port_active{device,port}                  1: the port is ACTIVE// One reading. Names come from the
//   kernel and are bounded all the same.
void read_port_counters(const std::filesystem::path& sysfs);

}  // namespace verbena::fabric::ofi
