#include "sign_in/ldap_text.h"

#include <gtest/gtest.h>

namespace verbena::sign_in {
namespace {

TEST(LdapText, WhatMeansSomethingInAFilterIsWrittenByItsNumber) {
  EXPECT_EQ(escape_filter_value("alice.b-c_1"), "alice.b-c_1");
  EXPECT_EQ(escape_filter_value("*)(uid=*"), "\\2a\\29\\28uid\\3d\\2a");
  EXPECT_EQ(escape_filter_value(std::string_view("a\0b\\", 4)), "a\\00b\\5c");
  EXPECT_EQ(escape_filter_value("m\xc3\xbc"), "m\\c3\\bc");
}

TEST(LdapText, WhatMeansSomethingInANameIsWrittenByItsNumber) {
  EXPECT_EQ(escape_dn_value("x,ou=admins"), "x\\2cou\\3dadmins");
  EXPECT_EQ(escape_dn_value("#04\"+;<>\\ "), "\\2304\\22\\2b\\3b\\3c\\3e\\5c\\20");
}

TEST(LdapText, FormsAreFilledOnce) {
  EXPECT_EQ(fill_form("uid=%s,ou=people", "alice", ""), "uid=alice,ou=people");
  EXPECT_EQ(fill_form("(|(member=%d)(memberUid=%s))", "a", "uid=a,o=x"), "(|(member=uid=a,o=x)(memberUid=a))");
  EXPECT_EQ(fill_form("%s", "%d", "dn"), "%d");  // inserted text is not expanded again
}

TEST(LdapText, FormsWithOtherSignsAreNone) {
  EXPECT_TRUE(is_form("(uid=%s)", "s"));
  EXPECT_TRUE(is_form("(&(member=%d)(x=%s))", "ds"));
  for (const char* wrong : {"", "(uid=alice)", "%", "(uid=%s)%", "(uid=%s%n)", "(uid=%%s)", "(member=%d)"}) {
    EXPECT_FALSE(is_form(wrong, "s")) << wrong;
  }
  EXPECT_FALSE(is_form("(memberUid=%s)", "ds"));
}

TEST(LdapText, NamesThatADirectoryWouldTakeForOthersAreNone) {
  for (const char* name : {"alice", "a", "alice b", "*)(uid=*", "DOMAIN\\alice", "alice@example.org"}) {
    EXPECT_TRUE(is_user_name(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string(" alice"), std::string("alice "), std::string("a  b"), std::string("al\tice"),
        std::string("\xef\xbd\x81lice"), std::string(256, 'a'), std::string("a\0b", 3)}) {
    EXPECT_FALSE(is_user_name(name)) << name;
  }
}

}  // namespace
}  // namespace verbena::sign_in
