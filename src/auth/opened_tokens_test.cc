#include "auth/opened_tokens.h"

#include <gtest/gtest.h>

namespace verbena::auth {
namespace {

class Opened : public ::testing::Test {
 protected:
  static AccessKeyPtr key_of(const std::string& account_id) {
    Account account;
    account.id = account_id;
    Principal principal;
    principal.account = std::make_shared<const Account>(account);
    AccessKey key;
    key.principal = std::make_shared<const Principal>(principal);
    return std::make_shared<const AccessKey>(key);
  }
  void open(const std::string& token, const AccessKeyPtr& key) { tokens_.put(1, 1, token, key); }
  bool knows(const std::string& token) { return tokens_.find(1, 1, token) != nullptr; }
  static std::string token(const std::string& of, size_t number) { return of + " token " + std::to_string(number); }

  OpenedTokens tokens_;
};

TEST_F(Opened, AreFoundUntilKeysOrRightsChange) {
  const auto key = key_of("a");
  open("token", key);
  EXPECT_EQ(tokens_.find(1, 1, "token"), key);
  EXPECT_EQ(tokens_.find(1, 1, "token "), nullptr);
  EXPECT_EQ(tokens_.find(1, 1, ""), nullptr);
  EXPECT_EQ(tokens_.find(1, 2, "token"), nullptr) << "another generation";
  EXPECT_EQ(tokens_.find(2, 1, "token"), nullptr) << "another store";
  tokens_.put(1, 2, "other", key);
  EXPECT_EQ(tokens_.find(1, 1, "token"), nullptr);
  EXPECT_EQ(tokens_.size(), 1u) << "nothing of before is kept";
}

TEST_F(Opened, OfOneAccountTakeNoPlaceOfAnothers) {
  const auto quiet = key_of("quiet"), busy = key_of("busy");
  for (size_t i = 0; i < 10; ++i) open(token("quiet", i), quiet);
  for (size_t i = 0; i < 5'000; ++i) open(token("busy", i), busy);
  for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(knows(token("quiet", i))) << i;
  EXPECT_EQ(tokens_.size(), 10 + OpenedTokens::account_max);
  EXPECT_TRUE(knows(token("busy", 4'999)));
  EXPECT_FALSE(knows(token("busy", 4'999 - OpenedTokens::account_max)));
}

TEST_F(Opened, ThoseThatAreUsedStay) {
  const auto key = key_of("a");
  open("used", key);
  for (size_t i = 0; i < 1'000; ++i) {
    open(token("a", i), key);
    ASSERT_TRUE(knows("used"));
  }
}

TEST_F(Opened, OfManyAccountsAreBoundedToo) {
  const auto large = key_of("large");
  for (size_t i = 0; i < OpenedTokens::account_max; ++i) open(token("large", i), large);
  for (size_t i = 0; i < 2'000; ++i) open(token("small", i), key_of("account " + std::to_string(i)));
  EXPECT_EQ(tokens_.size(), OpenedTokens::tokens_max);
  EXPECT_TRUE(knows(token("small", 1'999)));
  open("last", large);
  EXPECT_EQ(tokens_.size(), OpenedTokens::tokens_max);
  EXPECT_TRUE(knows("last"));
}

}  // namespace
}  // namespace verbena::auth
