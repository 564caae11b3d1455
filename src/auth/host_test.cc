#include "auth/host.h"

#include <gtest/gtest.h>

#include "auth/auth.h"

namespace verbena::auth {
namespace {

TEST(HostName, IsWithoutPortCaseAndTheDotOfAFullName) {
  EXPECT_EQ(host_name("Bucket.S3.Example.com:9000"), "bucket.s3.example.com");
  EXPECT_EQ(host_name("bucket.s3.example.com."), "bucket.s3.example.com");
  EXPECT_EQ(host_name("bucket.s3.example.com.:9000"), "bucket.s3.example.com");
  EXPECT_EQ(host_name(" localhost: "), "localhost");
  EXPECT_EQ(host_name("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(host_name("[::1]:9000"), "[::1]");
  EXPECT_EQ(host_name("[FE80::1]"), "[fe80::1]");
  EXPECT_EQ(host_name(""), "");
  EXPECT_EQ(host_name("."), "");
}

TEST(HostName, AFullNameIsTheVirtualHostOfItsBucket) {
  EXPECT_EQ(virtual_bucket(host_name("photos.S3.test.:9000"), "s3.test"), "photos");
  EXPECT_EQ(virtual_bucket(host_name("photos.localhost."), ""), "photos");
  EXPECT_EQ(virtual_bucket(host_name("[::1]:9000"), "s3.test"), "");
}

}  // namespace
}  // namespace verbena::auth
