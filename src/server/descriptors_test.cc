#include "server/descriptors.h"

#include <gtest/gtest.h>

namespace verbena::server {
namespace {

// The maximum that unauthenticated and other clients may hold together.
uint64_t promised(const Config& config, const Descriptors& shares, unsigned cores) {
  return config.http.connections_max + config.rdma.connections_max + shares.admin + shares.certificates +
         cores * (shares.arrivals + *config.rdma.sessions_max);
}

TEST(Descriptors, AreLeftAsTheyAreWhereThereAreEnough) {
  Config config;
  const auto shares = share_out(1 << 20, 16, config);
  EXPECT_TRUE(shares.enough);
  EXPECT_EQ(shares.store, 8192u);
  EXPECT_EQ(shares.arrivals, 512u);
  EXPECT_EQ(config.http.connections_max, Config().http.connections_max);
}

// 2,500 connections of one address took everything that a limit of 1,024 files allows, and other clients were refused.
TEST(Descriptors, OfOneAddressNeverTakeAllThatThereAre) {
  for (const size_t files : {1024, 4096, 16'384, 65'536}) {
    for (const unsigned cores : {1u, 2u, 16u}) {
      Config config;
      config.sign_in.certificates.ca_file = "ca.pem";
      const auto shares = share_out(files, cores, config);
      EXPECT_LT(promised(config, shares, cores) + shares.store, files) << files << " files, " << cores << " cores";
      EXPECT_LE(config.http.connections_per_client_max * 4, config.http.connections_max) << files;
      EXPECT_LE(*config.rdma.sessions_per_client_max * 2, *config.rdma.sessions_max + 2) << files;
      EXPECT_GE(config.http.connections_max, 16u) << files;
    }
  }
}

// They were fitted to the files and then lowered once more: of a shell's 1,024 files one session was left.
TEST(Descriptors, AFewFilesAreEnoughForTensOfSessions) {
  Config config;
  share_out(1024, 2, config);
  EXPECT_EQ(*config.rdma.sessions_max, 128u);
  Config asked;
  asked.rdma.sessions_max = 20'000;
  share_out(1024, 2, asked);
  EXPECT_LT(*asked.rdma.sessions_max, 500u);
}

TEST(Descriptors, ALimitThatTheOperatorTurnedOffStaysOff) {
  Config config;
  config.http.connections_per_client_max = 0;
  EXPECT_FALSE(share_out(1024, 2, config).enough);
  EXPECT_EQ(config.http.connections_per_client_max, 0u);
}

}  // namespace
}  // namespace verbena::server
