#include "rdma/transport.h"

#include <gtest/gtest.h>

namespace verbena::rdma {
namespace {

TEST(Transport, OnlyAnRdmaDeviceIsRdma) {
  for (const char* provider : {"verbs;ofi_rxm", "verbs", "efa", "cxi", "psm3"}) {
    EXPECT_EQ(transport_of(provider), Transport::rdma) << provider;
  }
  for (const char* provider : {"tcp", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"}) {
    EXPECT_EQ(transport_of(provider), Transport::tcp) << provider;
  }
  for (const char* provider : {"local", "shm"}) {
    EXPECT_EQ(transport_of(provider), Transport::shared_memory) << provider;
  }
}

}  // namespace
}  // namespace verbena::rdma
