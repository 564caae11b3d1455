#include "cli/doctor.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"

namespace verbena::cli {
namespace {

TEST(Doctor, MalformedEndpointsAreNamed) {
  EXPECT_EQ(check_ports("nonsense", "")[0].health, Health::fail);
  EXPECT_EQ(check_ports("http://127.0.0.1:9000", "x:y:z")[0].health, Health::fail);
}

constexpr const char* good_unit =
    "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=7\nType=notify\nWatchdogUSec=30s\n"
    "LimitMEMLOCK=infinity\nPrivateDevices=no\nUser=verbena\nNeedDaemonReload=no\n";

TEST(Doctor, FindsAUnitAsThePackageHasItSound) {
  for (const Finding& finding : explain_unit(good_unit)) EXPECT_EQ(finding.health, Health::ok) << finding.subject;
}

TEST(Doctor, ExplainsAUnitThatFailedForItsConfiguration) {
  std::string text = good_unit;
  text.replace(text.find("ActiveState=active"), 18, "ActiveState=failed\nExecMainStatus=2");
  const Findings findings = explain_unit(text);
  EXPECT_EQ(findings[0].health, Health::fail);
  EXPECT_NE(findings[0].mend.find("verbena config --check"), std::string::npos);
}

TEST(Doctor, NamesWhatAnOverrideTookFromTheUnit) {
  std::string text = good_unit;
  text.replace(text.find("LimitMEMLOCK=infinity"), 21, "LimitMEMLOCK=8388608");
  text.replace(text.find("WatchdogUSec=30s"), 16, "WatchdogUSec=0");
  size_t warnings = 0;
  for (const Finding& finding : explain_unit(text)) warnings += finding.health == Health::warn ? 1 : 0;
  EXPECT_EQ(warnings, 2u);
}

TEST(Doctor, AnAnswerThatItDoesNotUnderstandIsNoSoundMachine) {
  using Json = nlohmann::json;
  for (const char* text : {"{}", R"({"findings":[]})", R"({"findings":{}})", R"({"findings":"ok"})"}) {
    EXPECT_FALSE(findings_of(Json::parse(text))) << text;
  }
  const auto told = findings_of(Json::parse(
      R"({"findings":[{"health":"ok"},{"health":"warn"},{"health":"fail"},{"health":"dying"},{"health":1},{},7]})"));
  ASSERT_TRUE(told);
  std::string healths;
  for (const Finding& finding : *told) healths += std::string(admin::to_string(finding.health)) + " ";
  EXPECT_EQ(healths, "ok warn fail fail fail fail fail ");
  testing::internal::CaptureStdout();
  EXPECT_EQ(put_findings({told->at(3)}, true), exit_failure);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("\"health\":\"fail\""), std::string::npos);
}

TEST(Doctor, WhatIsFoundSteersNoTerminalAndComesUnchangedAsJson) {
  const std::string evil = "disk\x1b[2J\u202e\u00fc";
  testing::internal::CaptureStdout();
  put_findings({{Health::ok, evil, evil, evil}}, false);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("\\x1b"), std::string::npos) << text;
  testing::internal::CaptureStdout();
  put_findings({{Health::ok, evil, evil, evil}}, true);
  const std::string line = testing::internal::GetCapturedStdout();
  for (const char c : line) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << line;
  EXPECT_EQ(nlohmann::json::parse(line)["found"], evil);
}

TEST(Doctor, KnowsAMachineWithoutSystemdAndOneWithoutTheUnit) {
  const MachineRoots roots{.sys = "/nowhere", .proc = "/nowhere", .run = "/nowhere"};
  EXPECT_NE(check_systemd(roots)[0].mend.find("verbena server DIR"), std::string::npos);
  EXPECT_NE(explain_unit("LoadState=not-found\n")[0].mend.find("package"), std::string::npos);
}

}  // namespace
}  // namespace verbena::cli
