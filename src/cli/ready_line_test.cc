#include "cli/ready_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::cli {
namespace {

server::Endpoints endpoints() {
  server::Endpoints all;
  all.http = "http://127.0.0.1:40001";
  all.native = "[::1]:40002";
  return all;
}

server::RootKeys keys(server::RootKeys::From from) {
  return {{.access_key = "AK", .secret_key = "very secret", .session_token = ""}, from};
}

TEST(ReadyLine, IsOneLineOfJsonWithWhereTheDoorsAre) {
  const std::string text = ready_line(endpoints(), keys(server::RootKeys::From::generated), "eu-west-1");
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["s3"], "http://127.0.0.1:40001");
  EXPECT_EQ(line["ports"]["s3"], 40001);
  EXPECT_EQ(line["native"], "[::1]:40002");
  EXPECT_EQ(line["ports"]["native"], 40002);
  EXPECT_TRUE(line["admin"].is_null());
  EXPECT_TRUE(line["ports"]["admin"].is_null());
  EXPECT_EQ(line["region"], "eu-west-1");
  EXPECT_EQ(line["access_key"], "AK");
  EXPECT_EQ(line["secret_key"], "very secret");
  EXPECT_GT(line["pid"], 0);
}

TEST(ReadyLine, HasNoSecretThatSomebodyElseKeeps) {
  for (const auto from : {server::RootKeys::From::environment, server::RootKeys::From::file}) {
    const std::string text = ready_line(endpoints(), keys(from), "us-east-1");
    EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace verbena::cli
