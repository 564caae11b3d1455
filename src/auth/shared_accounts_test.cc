// Accounts that several servers share by one text: what a change and its notification parse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auth/identifiers.h"
#include "auth/identity_store.h"

namespace verbena::auth {
namespace {

constexpr int64_t made_s = 1'767'323'045;

// The text of all servers in a test; replace() notifies each of them, as the cluster does.
class SharedAccounts final : public SharedText {
 public:
  Result<std::optional<std::string>> read() override { return text; }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& next) override {
    if (before != text || refuses) return false;
    text = next;
    for (IdentityStore* const server : servers) EXPECT_TRUE(server->take(text));
    return true;
  }

  std::optional<std::string> text;
  std::vector<IdentityStore*> servers;
  bool refuses = false;
};

class SharedAccountsTest : public testing::Test {
 protected:
  std::unique_ptr<IdentityStore> server() {
    auto opened = IdentityStore::open(text_, *keys_, {"ROOTKEY", "the root's secret", ""});
    EXPECT_TRUE(opened) << opened.error();
    text_.servers.push_back(opened->get());
    return std::move(*opened);
  }
  static Result<void> add(IdentityStore& at, const std::string& name) {
    AccountEntry entry;
    entry.name = name;
    entry.account = std::make_shared<const Account>(Account{make_account_id(), name + "-id", name, ""});
    entry.keys.push_back(at.make_key("AK" + name, "secret of " + name, made_s));
    return at.change([&](AccountMap& accounts) -> Result<void> {
      accounts.emplace(entry.account->id, std::make_shared<const AccountEntry>(entry));
      return {};
    });
  }
  // Which entries the next change begins with: the same object, if its account was not parsed again.
  static std::map<std::string, AccountEntryPtr> entries(IdentityStore& at) {
    std::map<std::string, AccountEntryPtr> found;
    (void)at.change([&](AccountMap& accounts) -> Result<void> {
      for (const auto& [id, entry] : accounts) found[entry->name] = entry;
      return fail(Errc::access_denied, "changes nothing");
    });
    return found;
  }

  std::unique_ptr<KeyRing> keys_ = KeyRing::in_memory();
  SharedAccounts text_;
};

TEST_F(SharedAccountsTest, AnUnchangedTextIsParsedOnce) {
  const auto one = server();
  ASSERT_TRUE(add(*one, "alice"));
  const auto before = entries(*one);
  ASSERT_TRUE(add(*one, "bob"));
  const auto after = entries(*one);
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after.at("alice"), before.at("alice"));
  EXPECT_EQ(one->account_named("alice"), before.at("alice")) << "nor by the notification";
  EXPECT_EQ(encode_accounts(*one->accounts()), *text_.text);
}

TEST_F(SharedAccountsTest, AnotherServersChangeIsSeenByTheNextOne) {
  const auto one = server(), two = server();
  ASSERT_TRUE(add(*one, "alice"));
  text_.servers = {two.get()};  // the notification to the first is late
  ASSERT_TRUE(add(*two, "bob"));
  EXPECT_EQ(one->account_named("bob"), nullptr);
  ASSERT_TRUE(add(*one, "carol"));
  EXPECT_EQ(entries(*one).size(), 4u);
  EXPECT_NE(two->account_named("bob"), nullptr);
  EXPECT_NE(two->account_named("carol"), nullptr);
  ASSERT_TRUE(one->take(text_.text));
  EXPECT_NE(one->account_named("bob"), nullptr);
  EXPECT_TRUE(one->find("AKbob", "", made_s));
}

// Any change of an account made what is cached of every account's buckets stale, on each server of the cluster.
TEST_F(SharedAccountsTest, OnlyAccountsWhoseLimitsChangedAreNamed) {
  const auto one = server(), two = server();
  ASSERT_TRUE(add(*one, "alice"));
  ASSERT_TRUE(add(*one, "bob"));
  std::vector<std::string> named;
  two->when_limits_change([&](std::string_view id) {
    named.emplace_back(id);
    EXPECT_EQ(two->limits_of("alice-id") != nullptr, named.size() == 1) << "it is visible when it is told";
  });
  using testing::ElementsAre, testing::IsEmpty;
  const auto change_alice = [&](const std::function<void(AccountEntry&)>& edit) {
    return one->change_account(one->account_named("alice")->account->id, [&](AccountEntry& entry) -> Result<void> {
      edit(entry);
      return {};
    });
  };
  ASSERT_TRUE(change_alice([](AccountEntry& entry) { entry.keys.clear(); }));
  EXPECT_THAT(named, IsEmpty());
  ASSERT_TRUE(change_alice([](AccountEntry& entry) { entry.limits = make_limits(Quota{.bytes = 1000}); }));
  EXPECT_THAT(named, ElementsAre("alice-id"));
  ASSERT_TRUE(two->take(text_.text));
  EXPECT_THAT(named, ElementsAre("alice-id")) << "read anew, but the same";
  ASSERT_TRUE(change_alice([](AccountEntry& entry) { entry.limits = nullptr; }));
  EXPECT_THAT(named, ElementsAre("alice-id", "alice-id"));
  ASSERT_TRUE(one->change([](AccountMap& accounts) -> Result<void> {
    std::erase_if(accounts, [](const auto& account) { return account.second->name == "bob"; });
    return {};
  }));
  EXPECT_THAT(named, ElementsAre("alice-id", "alice-id", "bob-id"));
}

TEST_F(SharedAccountsTest, AChangeThatLostLeavesNothing) {
  const auto one = server();
  ASSERT_TRUE(add(*one, "alice"));
  text_.refuses = true;
  EXPECT_EQ(add(*one, "bob").error(), Errc::slow_down);
  text_.refuses = false;
  EXPECT_EQ(entries(*one).size(), 2u);
  EXPECT_EQ(one->account_named("bob"), nullptr);
  ASSERT_TRUE(add(*one, "bob"));
  EXPECT_TRUE(one->find("AKbob", "", made_s));
}

}  // namespace
}  // namespace verbena::auth
