#include "cli/aws_profile.h"

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

using Variables = std::map<std::string, std::string>;

AwsSettings settings(const std::string& profile, const Variables& variables, const Variables& files) {
  const auto look_up = [](const Variables& in, const std::string& name) {
    const auto found = in.find(name);
    return found == in.end() ? std::string() : found->second;
  };
  return aws_settings(
      profile, [&](const char* name) { return look_up(variables, name); },
      [&](const std::string& path) { return look_up(files, path); });
}

const Variables files = {
    {"/home/u/.aws/credentials",
     "# keys\n[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key=a=b/c+d==\r\n\n"
     "[work]\naws_access_key_id = WORKKEY\naws_secret_access_key = worksecret\naws_session_token = tok\n"},
    {"/home/u/.aws/config",
     "[default]\nregion = eu-west-1\n[profile work]\nregion = us-west-2\ns3 =\n  region = nested\nendpoint_url = "
     "http://w:1\n"}};

TEST(AwsProfile, TheEnvironmentComesFirst) {
  const auto found = settings("",
                              {{"HOME", "/home/u"},
                               {"AWS_ACCESS_KEY_ID", "ENVKEY"},
                               {"AWS_SECRET_ACCESS_KEY", "envsecret"},
                               {"AWS_DEFAULT_REGION", "r2"},
                               {"AWS_REGION", "r1"},
                               {"AWS_ENDPOINT_URL", "http://a"},
                               {"AWS_ENDPOINT_URL_S3", "http://b"}},
                              files);
  EXPECT_EQ(found.access_key, "ENVKEY");
  EXPECT_EQ(found.secret_key, "envsecret");
  EXPECT_EQ(found.session_token, "") << "keys from one place only";
  EXPECT_EQ(found.region, "r1");
  EXPECT_EQ(found.endpoint, "http://b");
}

TEST(AwsProfile, FilesFillWhatTheEnvironmentLeavesOpen) {
  auto found = settings("", {{"HOME", "/home/u"}}, files);
  EXPECT_EQ(found.access_key, "DEFAULTKEY");
  EXPECT_EQ(found.secret_key, "a=b/c+d==");
  EXPECT_EQ(found.region, "eu-west-1");
  found = settings("", {{"HOME", "/home/u"}, {"AWS_PROFILE", "work"}}, files);
  EXPECT_EQ(found.access_key, "WORKKEY");
  EXPECT_EQ(found.session_token, "tok");
  EXPECT_EQ(found.region, "us-west-2") << "an indented line belongs to the setting before";
  EXPECT_EQ(found.endpoint, "http://w:1");
}

TEST(AwsProfile, ANamedProfileOutranksKeysInTheEnvironment) {
  const auto found =
      settings("work", {{"HOME", "/home/u"}, {"AWS_ACCESS_KEY_ID", "ENVKEY"}, {"AWS_SECRET_ACCESS_KEY", "s"}}, files);
  EXPECT_EQ(found.access_key, "WORKKEY");
}

TEST(AwsProfile, OddFilesDoNoHarm) {
  for (const char* text : {"", "[", "[]", "]\n=", "=\n==\n[x\ny=1", "[a]\n=v\nk=\n", "\xff\xfe[default]\nx=y"}) {
    EXPECT_NO_THROW(parse_ini(text)) << text;
  }
  EXPECT_TRUE(settings("none", {{"HOME", "/home/u"}}, files).access_key.empty());
}

}  // namespace
}  // namespace verbena::cli
