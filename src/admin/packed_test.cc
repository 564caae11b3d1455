#include "admin/packed.h"

#include <gtest/gtest.h>

#include "admin/console.h"

namespace verbena::admin {
namespace {

TEST(Packed, GzipIsForClientsThatWantIt) {
  for (const char* header : {"gzip", "GZIP", "x-gzip", "deflate, gzip", "gzip;q=0.5", "gzip ; Q=1.000", "*", "*;q=0.1",
                             "br;q=1.0, gzip;q=0.8, *;q=0.1", "identity;q=0.5, gzip", "identity, gzip"}) {
    EXPECT_TRUE(wants_gzip(header)) << header;
  }
  for (const char* header : {"", "identity", "br", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *", "gzipped",
                             "gzip;q=0.5, identity", "gzip;q=x", "gzip;q=", ",;,"}) {
    EXPECT_FALSE(wants_gzip(header)) << header;
  }
}

TEST(Packed, EachFileOfTheConsoleComesOut) {
  for (const ConsoleFile& file : console_files()) {
    const auto whole = gunzip(file.gzip, 16 << 20);
    ASSERT_TRUE(whole) << file.name;
    EXPECT_GT(whole->size(), file.gzip.size() / 2) << file.name;
    if (file.name == "index.html")
      EXPECT_TRUE(whole->starts_with("<!doctype html>") || whole->starts_with("<!DOCTYPE"));
    EXPECT_EQ(gunzip(file.gzip, whole->size() - 1).error(), Errc::malformed) << "more than is allowed";
    EXPECT_EQ(gunzip(file.gzip.substr(0, file.gzip.size() - 9), 16 << 20).error(), Errc::malformed);
    std::string broken(file.gzip);
    broken[broken.size() / 2] ^= 1;
    EXPECT_FALSE(gunzip(broken, 16 << 20)) << file.name;
  }
  EXPECT_FALSE(gunzip("", 100));
  EXPECT_FALSE(gunzip(std::string(100, 'x'), 1 << 30));
}

}  // namespace
}  // namespace verbena::admin
