#include <gtest/gtest.h>

#include "base/config.h"

namespace verbena {
namespace {

std::string error_of(const std::string& text) {
  Config config;
  auto done = apply_yaml(config, text, "v.yaml");
  if (done) done = check(config);
  return done ? "it was taken" : done.error();
}

TEST(ConfigListeners, AFileHasThemAsAList) {
  Config config;
  const auto done = apply_yaml(config, R"(
listeners:
  - networks: [10.1.0.0/16, "fd00::/8"]
    encryption: off
    address: "[fd00::5]:9000"
  - networks: 10.0.0.0/8
    accounts: [000000000000, anonymous]
  - networks: ["0.0.0.0/0", "::/0"]
    encryption: required
)",
                               "v.yaml");
  ASSERT_TRUE(done) << done.error();
  ASSERT_EQ(config.listeners.size(), 3u);
  EXPECT_EQ(config.listeners[0].networks, (std::vector<std::string>{"10.1.0.0/16", "fd00::/8"}));
  EXPECT_EQ(config.listeners[0].encryption, RdmaEncryption::off);
  EXPECT_EQ(config.listeners[0].address, "fd00::5");
  EXPECT_EQ(config.listeners[0].port, 9000);
  EXPECT_FALSE(config.listeners[0].accounts);
  EXPECT_EQ(config.listeners[1].networks, (std::vector<std::string>{"10.0.0.0/8"}));
  EXPECT_EQ(config.listeners[1].accounts, (std::vector<std::string>{"000000000000", "anonymous"}));
  EXPECT_FALSE(config.listeners[1].encryption);
  EXPECT_EQ(config.listeners[2].encryption, RdmaEncryption::required);
  EXPECT_EQ(config.origins.at("listeners").source, "v.yaml:3");
}

TEST(ConfigListeners, AVariableAndAFlagHaveThemAsYamlOrJson) {
  Config config;
  const char* const environment[] = {R"(VERBENA_LISTENERS=[{"networks":["10.0.0.0/8"],"encryption":"required"}])",
                                     nullptr};
  ASSERT_TRUE(apply_environment(config, environment, {}));
  ASSERT_EQ(config.listeners.size(), 1u);
  ASSERT_TRUE(apply_value(config, "listeners", "[{networks: [10.0.0.0/8]}, {networks: [192.168.0.0/16]}]"));
  EXPECT_EQ(config.listeners.size(), 2u);
  ASSERT_TRUE(apply_value(config, "listeners", "[]"));
  EXPECT_TRUE(config.listeners.empty());
  EXPECT_FALSE(apply_value(config, "listeners", "&a [*a]"));
  EXPECT_FALSE(apply_value(config, "listeners", std::string(1000, '[')));
  EXPECT_FALSE(apply_value(config, "listeners", "[{networks: [10.0.0.0/8]"));
}

TEST(ConfigListeners, WhatIsShownCanBeSetAgain) {
  Config config, again;
  ASSERT_TRUE(apply_yaml(config, "listeners: [{networks: ['::1', 10.0.0.0/8], accounts: ['000000000000']}]", "v.yaml"));
  const std::string shown = config.origins.at("listeners").text;
  EXPECT_EQ(shown, R"([{"networks": ["::1", "10.0.0.0/8"], "accounts": ["000000000000"]}])");
  ASSERT_TRUE(apply_value(again, "listeners", shown));
  EXPECT_EQ(again.listeners[0].networks, config.listeners[0].networks);
}

TEST(ConfigListeners, ErrorsNameTheEntryAndTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"listeners: 10.0.0.0/8",
       "v.yaml:1: listeners: wants a list of entries with networks, encryption, accounts and address"},
      {"listeners: [10.0.0.0/8]", "v.yaml:1: listeners: [0]: wants 'networks:' and what applies to them"},
      {"listeners: [{networks: [10.0.0.0/8]}, {encryption: off}]",
       "v.yaml:1: listeners: [1].networks: is missing: name the clients' networks, like 10.0.0.0/8"},
      {"listeners: [{networks: [10.0.0.0/8], encryption: maybe}]",
       "v.yaml:1: listeners: [0].encryption: not one of off, preferred, required"},
      {"listeners: [{networks: [10.0.0.0/8], accounts: []}]",
       "v.yaml:1: listeners: [0].accounts: is empty: name an account, or leave the key out"},
      {"listeners: [{networks: [10.0.0.0/8], acounts: [000000000000]}]",
       "v.yaml:1: listeners: [0].acounts: unknown: an entry has networks, encryption, accounts and address"},
      {"listeners: [{networks: [10.0.0.0/8], networks: [11.0.0.0/8]}]",
       "v.yaml:1: listeners: [0].networks: stands here twice"},
      {"listeners: [{networks: [10.0.0.0/8], address: 10.0.0.5}]",
       "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000"},
      {"listeners: [{networks: [10.0.0.0/8], address: 'fd00::5:9000'}]",
       "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000"},
      {"listeners: [{networks: [10.0.0.0/8], address: '10.0.0.5:99999'}]",
       "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000"},
      {"listeners: [{networks: [10.0.0.0/8], address: '10.0.0.5:00'}]",
       "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000"},
      {"listeners: [{networks: [10.0.0.0/8], address: '10.0.0.0/8:9000'}]",
       "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000"},
      {"listeners: [{networks: [10.0.0.0/8], address: '[fd00::g]:9000'}]",
       "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of(text), message);
}

TEST(ConfigListeners, EveryAddressThatAListenerCanBeOpenedAtIsTaken) {
  const std::pair<const char*, const char*> cases[] = {
      {"*:9000", "*"}, {"[fe80::1%eth0]:9000", "fe80::1%eth0"}, {"localhost:9000", "localhost"}};
  for (const auto& [text, host] : cases) {
    Config config;
    const auto done =
        apply_yaml(config, "listeners: [{networks: [10.0.0.0/8], address: '" + std::string(text) + "'}]", "v.yaml");
    ASSERT_TRUE(done) << done.error();
    EXPECT_EQ(config.listeners[0].address, host);
    EXPECT_EQ(config.listeners[0].port, 9000);
  }
  for (const std::string text : {"10.0.0.999:9000", "10.0.0:9000", "storage1:9000"}) {
    EXPECT_EQ(error_of("listeners: [{networks: [10.0.0.0/8], address: '" + text + "'}]"),
              "v.yaml:1: listeners: [0].address: not an address and port like 10.0.0.5:9000 or [fd00::5]:9000");
  }
}

TEST(ConfigListeners, RulesBetweenKeysAreChecked) {
  EXPECT_EQ(error_of("{http: {address: 10.0.0.5}, listeners: [{networks: [10.0.0.0/8], address: '10.0.0.5:9000'}]}"),
            "listeners[0].address: 9000 is http.port already: each needs a port of its own");
  EXPECT_EQ(error_of("{http: {address: 10.0.0.6}, listeners: [{networks: [10.0.0.0/8], address: '10.0.0.5:9000'}]}"),
            "it was taken");
  EXPECT_EQ(error_of("{rdma: {tcp_encryption: off}, listeners: [{networks: [10.0.0.0/8], encryption: required}]}"),
            "listeners[0].encryption: required needs rdma.tcp_encryption: on");
  EXPECT_EQ(error_of("{dpu: {enabled: true, enable_crypto: true}, rdma: {encryption: required}, "
                     "listeners: [{networks: [10.0.0.0/8], encryption: off}]}"),
            "dpu.enable_crypto: encrypts for every client, but listeners[0].encryption is off");
  const std::string required = "rdma: {encryption: required, token_provider: [verbs]}";
  EXPECT_NE(error_of("{" + required + "}"), "it was taken");
  EXPECT_EQ(error_of("{" + required + ", listeners: [{networks: [10.0.0.0/8], encryption: off}]}"), "it was taken")
      << "tokens serve the clients there";
}

TEST(ConfigListeners, TheDoorsAreOpenedForWhatAnyClientNeeds) {
  Config config;
  EXPECT_TRUE(rdma_may_be_plain(config) && rdma_may_be_sealed(config));
  config.rdma.encryption = RdmaEncryption::required;
  EXPECT_FALSE(rdma_may_be_plain(config));
  config.listeners.emplace_back().networks = {"10.0.0.0/8"};
  EXPECT_FALSE(rdma_may_be_plain(config)) << "the entry does not say";
  config.listeners.back().encryption = RdmaEncryption::off;
  EXPECT_TRUE(rdma_may_be_plain(config));
  config.rdma.encryption = RdmaEncryption::off;
  EXPECT_FALSE(rdma_may_be_sealed(config));
  config.listeners.back().encryption = RdmaEncryption::preferred;
  EXPECT_TRUE(rdma_may_be_sealed(config));
}

}  // namespace
}  // namespace verbena
