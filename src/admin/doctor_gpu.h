// The parts of the doctor's checks of GPUs (doctor.h, check_gpus).
#pragma once

#include <vector>

#include "admin/doctor.h"
#include "memory/cuda.h"

namespace verbena::admin {

// NVIDIA's and AMD's GPUs on the PCI bus, whether or not a driver serves them: device files, MIG, IOMMU, ACS, the
// module for peer memory. Empty: there is none. AMD's count where /dev/kfd is: the kernel's driver lets programs use
// them.
Findings check_gpu_bus(const MachineRoots& roots);
// How a GPU's driver and the kernel let RDMA devices reach its memory.
struct PeerMeans {
  bool dma_buf = false;      // the driver can export it
  bool peer_module = false;  // they find it by its address
  bool unsure = false;       // the driver does not say that the GPU's later work sees what they have written
  memory::cuda::Platform platform = memory::cuda::Platform::cuda;
};
// The way that each of these providers takes to a GPU's memory, and why not a better one.
Findings gpu_ways(const std::vector<fabric::ofi::ProviderInfo>& providers, const PeerMeans& means);

}  // namespace verbena::admin
