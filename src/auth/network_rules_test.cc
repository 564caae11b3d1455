#include "auth/network_rules.h"

#include <gtest/gtest.h>

#include "auth/auth.h"
#include "base/metrics.h"

namespace verbena::auth {
namespace {

NetworkRules network_rules_of(std::vector<NetworkEntry> entries, RdmaEncryption elsewhere = RdmaEncryption::preferred) {
  auto made = NetworkRules::make(entries, elsewhere);
  if (!made) ADD_FAILURE() << made.error();
  return made ? *made : NetworkRules();
}

std::string network_error_of(std::vector<NetworkEntry> entries) {
  const auto made = NetworkRules::make(entries, RdmaEncryption::preferred);
  return made ? "it was taken" : made.error();
}

Identity tenant(const std::string& account) {
  Principal principal;
  principal.account = std::make_shared<const Account>(Account{account, "canonical", "name", ""});
  Identity who;
  who.anonymous = false;
  who.principal = std::make_shared<const Principal>(std::move(principal));
  return who;
}

constexpr const char* tenant_a = "111111111111";
constexpr const char* tenant_b = "222222222222";

TEST(NetworkRules, WithoutEntriesNothingIsRefused) {
  const NetworkRules none(RdmaEncryption::required);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.encryption("10.1.2.3"), RdmaEncryption::required);
  EXPECT_TRUE(none.check_transport("10.1.2.3", false)) << "rdma.encryption says nothing about HTTP";
  EXPECT_TRUE(none.check_caller("10.1.2.3", Identity()));
  EXPECT_TRUE(none.check_caller("not an address", Identity()));
}

TEST(NetworkRules, TheFirstEntryThatHoldsTheAddressDecides) {
  const auto made = network_rules_of({{.networks = {"10.1.0.0/16"}, .encryption = RdmaEncryption::off},
                                      {.networks = {"10.0.0.0/8", "fd00::/8"}, .encryption = RdmaEncryption::required},
                                      {.networks = {"0.0.0.0/0"}, .accounts = {{tenant_a}}}});
  EXPECT_EQ(made.encryption("10.1.255.255"), RdmaEncryption::off);
  EXPECT_EQ(made.encryption("10.2.0.0"), RdmaEncryption::required);
  EXPECT_EQ(made.encryption("::ffff:10.2.0.0"), RdmaEncryption::required) << "an IPv4 address in IPv6's notation";
  EXPECT_EQ(made.encryption("fd12::1"), RdmaEncryption::required);
  EXPECT_EQ(made.encryption("192.168.0.1"), RdmaEncryption::preferred) << "the entry does not say";
  EXPECT_EQ(made.encryption("2001:db8::1"), RdmaEncryption::preferred) << "no entry";
  EXPECT_EQ(made.entry_of("10.1.0.1"), 0u);
  EXPECT_EQ(made.entry_of("192.168.0.1"), 2u);
  EXPECT_EQ(made.entry_of("2001:db8::1"), std::nullopt);
}

TEST(NetworkRules, OnlyAnEntryItselfRequiresTls) {
  const auto made = network_rules_of(
      {{.networks = {"10.0.0.0/8"}, .encryption = RdmaEncryption::required}, {.networks = {"192.168.0.0/16"}}},
      RdmaEncryption::required);
  EXPECT_FALSE(made.check_transport("10.1.2.3", false));
  EXPECT_EQ(made.check_transport("10.1.2.3", false).error(), Errc::access_denied);
  EXPECT_TRUE(made.check_transport("10.1.2.3", true));
  EXPECT_TRUE(made.check_transport("192.168.1.1", false));
  EXPECT_TRUE(made.check_transport("172.16.0.1", false));
  EXPECT_EQ(made.encryption("192.168.1.1"), RdmaEncryption::required) << "rdma.encryption, as everywhere";
}

TEST(NetworkRules, AccountsAreServedWhereTheyAreNamed) {
  const auto made =
      network_rules_of({{.networks = {"10.0.0.0/8"}, .accounts = {{tenant_a}}},
                        {.networks = {"192.168.0.0/16"}, .accounts = {{"anonymous", std::string(root_account_id)}}}});
  EXPECT_TRUE(made.check_caller("10.1.2.3", tenant(tenant_a)));
  EXPECT_FALSE(made.check_caller("10.1.2.3", tenant(tenant_b)));
  EXPECT_FALSE(made.check_caller("10.1.2.3", Identity())) << "anonymous callers have no account";
  Identity root;
  root.anonymous = false;
  EXPECT_FALSE(made.check_caller("10.1.2.3", root)) << "the root account is an account";
  EXPECT_TRUE(made.check_caller("192.168.1.1", root));
  root.principal = superuser();
  EXPECT_TRUE(made.check_caller("192.168.1.1", root));
  EXPECT_TRUE(made.check_caller("192.168.1.1", Identity()));
  EXPECT_FALSE(made.check_caller("192.168.1.1", tenant(tenant_a)));
  EXPECT_TRUE(made.check_caller("172.16.0.1", tenant(tenant_b)));
  EXPECT_EQ(made.check_caller("10.1.2.3", tenant(tenant_b)).error(), Errc::access_denied);
}

TEST(NetworkRules, RefusalsAreCounted) {
  const auto counted = [](const char* reason) {
    return metrics::counter("verbena_network_refusals_total", "", {{"reason", reason}}).value();
  };
  const auto made = network_rules_of(
      {{.networks = {"10.0.0.0/8"}, .encryption = RdmaEncryption::required, .accounts = {{tenant_a}}}});
  const auto accounts = counted("account"), plain = counted("plain");
  EXPECT_TRUE(made.check_caller("10.0.0.1", tenant(tenant_a)));
  EXPECT_TRUE(made.check_transport("10.0.0.1", true));
  EXPECT_EQ(counted("account"), accounts);
  EXPECT_EQ(counted("plain"), plain);
  EXPECT_FALSE(made.check_caller("10.0.0.1", tenant(tenant_b)));
  EXPECT_FALSE(made.check_transport("10.0.0.1", false));
  EXPECT_EQ(counted("account"), accounts + 1);
  EXPECT_EQ(counted("plain"), plain + 1);
}

TEST(NetworkRules, AScopeIsNoPartOfTheAddress) {
  const auto made = network_rules_of({{.networks = {"fe80::/10"}, .accounts = {{tenant_a}}}});
  EXPECT_FALSE(made.check_caller("fe80::1%eth0", tenant(tenant_b)));
  EXPECT_TRUE(made.check_caller("fe80::1%eth0", tenant(tenant_a)));
}

TEST(NetworkRules, WhatIsNoAddressMayNothing) {
  const auto made = network_rules_of({{.networks = {"10.0.0.0/8"}}});
  for (const char* address : {"", "localhost", "10.1.2", "10.1.2.3:80", "%eth0"}) {
    EXPECT_FALSE(made.check_caller(address, tenant(tenant_a))) << address;
    EXPECT_FALSE(made.check_transport(address, false)) << address;
    EXPECT_EQ(made.encryption(address), RdmaEncryption::required) << address;
  }
}

TEST(NetworkRules, WhatCannotBeMeantIsAnErrorWithItsPlace) {
  EXPECT_EQ(network_error_of({{.networks = {"10.0.0.0/8"}}, {.networks = {"10.0.0.0/33"}}}),
            "[1].networks: '10.0.0.0/33' is not a network like 10.0.0.0/8");
  EXPECT_EQ(network_error_of({{.networks = {}}}),
            "[0].networks: is empty: name the clients' networks, like 10.0.0.0/8");
  EXPECT_EQ(network_error_of({{.networks = {"10.0.0.0/8"}, .accounts = {{"alice"}}}}),
            "[0].accounts: 'alice' is no account's id (12 digits), nor anonymous");
  EXPECT_EQ(network_error_of({{.networks = {"::/0", "10.0.0.0/8"}}, {.networks = {"10.1.0.0/16"}}}),
            "[1].networks: 10.1.0.0/16 is inside a network of entry [0], which decides first: put it before");
  EXPECT_EQ(network_error_of({{.networks = {"10.1.0.0/16"}}, {.networks = {"10.0.0.0/8"}}}), "it was taken");
}

}  // namespace
}  // namespace verbena::auth
