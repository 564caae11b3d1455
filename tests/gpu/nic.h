// Controls of the provider double: libfabric's tcp under the name of verbs, with a device that registers memory of
// GPUs. TEST_VERBENA_RDMA_DEVICE makes a program ask for verbs where there is no device.
#pragma once

extern "C" {
// libfabric offers the device with FI_HMEM (from the start on), and knows the memory of the driver double (not from the
// start on).
void nic_offers_device_memory(bool offered);
void nic_knows_devices(bool knows);
// Registrations of dma-bufs fail with this errno of libfabric (positive); 0: they work again.
void nic_refuses(int error);
// Registrations of devices' memory: that were made as dma-bufs, by address, and that exist.
unsigned nic_dma_bufs();
unsigned nic_by_address();
unsigned nic_registered();
}
