// The parts of the doctor's checks of GPUs (doctor.h, check_gpus).
#pragma once

#include <vector>

#include "admin/doctor.h"
#include "memory/cuda.h"

namespace verbena::admin {

// A GPU on the PCI bus, whether or not a driver serves it. AMD's count where /dev/kfd is: the kernel's driver lets
// programs use them.
struct GpuOnBus {
  std::string address;  // "0000:61:00.0"
  memory::cuda::Platform platform;
};
std::vector<GpuOnBus> gpus_on_bus(const MachineRoots& roots);
// What is to say of them: device files, MIG, IOMMU, ACS, the module for peer memory. Empty: there is none.
Findings check_gpu_bus(const MachineRoots& roots);
// Drivers that do not start: worth a warning where GPUs of theirs are. A library that is not there is told only then,
// or if there is nothing else.
Findings driver_faults(const memory::cuda::Drivers& known, const std::vector<GpuOnBus>& gpus);
// How a GPU's driver and the kernel let RDMA devices, and a server on this host, reach its memory.
struct GpuMeans {
  bool dma_buf = false;      // the driver can export it
  bool peer_module = false;  // they find it by its address
  bool descriptors = false;  // the driver shares it with another process by them
  bool unsure = false;       // the driver does not say that the GPU's later work sees what they have written
  memory::cuda::Platform platform = memory::cuda::Platform::cuda;
};
// The way that each of these providers takes, by the best of its devices, to a GPU's memory, and why not a better one.
Findings gpu_ways(const std::vector<fabric::ofi::ProviderInfo>& providers, const GpuMeans& means);

}  // namespace verbena::admin
