#include "base/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace verbena {
namespace {

TEST(Config, EveryKeySetsItsField) {
  Config config;
  const auto done = apply_yaml(config, R"(
log_level: debug
arena_size: 1 GiB
http: {address: 0.0.0.0, port: 9002}
gpudirect: {enabled: true, rocm_handles: true}
rdma:
  provider: [verbs, tcp]
  port: 9300
  fabric_ports: 9301-9316
  device_name: mlx5_0
  ib_port: 1
  gid_index: 3
  max_send_wr: 128
  max_recv_wr: 128
  max_sge: 4
  cq_size: 256
  token_provider: [verbs, tcp]
  token_networks: [10.0.0.0/8, "fd00::/8"]
  token_ports: 40000-40999
)",
                               "test.yaml");
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(config.log_level, log::Level::debug);
  EXPECT_EQ(config.arena_size, GiB);
  EXPECT_EQ(config.http.address, "0.0.0.0");
  EXPECT_EQ(config.http.port, 9002);
  EXPECT_TRUE(config.gpudirect.enabled);
  EXPECT_TRUE(config.gpudirect.rocm_handles);
  EXPECT_EQ(config.rdma.provider, (std::vector<std::string>{"verbs", "tcp"}));
  EXPECT_EQ(config.rdma.fabric_port_last, 9316);
  EXPECT_EQ(config.rdma.ib_port, 1);
  EXPECT_EQ(config.rdma.gid_index, "3");
  EXPECT_EQ(config.rdma.cq_size, 256u);
  EXPECT_EQ(config.rdma.token_provider, (std::vector<std::string>{"verbs", "tcp"}));
  EXPECT_EQ(config.rdma.token_networks.size(), 2u);
  EXPECT_EQ(config.rdma.token_port_first, 40000);
  EXPECT_EQ(config.rdma.token_port_last, 40999);
  EXPECT_TRUE(check(config));
}

TEST(Config, DefaultsInTheTableAreTheStructsOwn) {
  Config from_table;
  for (const auto& key : config_keys()) {
    if (key.fallback.empty()) continue;
    EXPECT_EQ(key.set(from_table, std::string(key.fallback)), "") << key.name;
  }
  const Config built_in;
  EXPECT_EQ(from_table.http.port, built_in.http.port);
  EXPECT_EQ(from_table.arena_size, built_in.arena_size);
  EXPECT_EQ(from_table.rdma.port, built_in.rdma.port);
  EXPECT_EQ(from_table.rdma.operation_timeout, built_in.rdma.operation_timeout);
  EXPECT_EQ(from_table.rdma.inline_bytes_max, built_in.rdma.inline_bytes_max);
  EXPECT_EQ(from_table.rdma.provider, built_in.rdma.provider);
  EXPECT_EQ(from_table.rdma.token_provider, built_in.rdma.token_provider);
  EXPECT_EQ(from_table.rdma.token_port_first, built_in.rdma.token_port_first);
  EXPECT_EQ(from_table.rdma.token_port_last, built_in.rdma.token_port_last);
}

TEST(Config, TheDocumentNamesEveryKeyAsItIs) {
  std::ostringstream text;
  text << std::ifstream(VERBENA_SOURCE_DIR "/docs/configuration.md").rdbuf();
  EXPECT_NE(text.str().find(config_reference()), std::string::npos) << "docs/configuration.md should hold:\n"
                                                                    << config_reference();
}

TEST(Config, AnUnknownKeyNamesItsLineAndTheNearestKnownKey) {
  Config config;
  const auto done = apply_yaml(config, "log_level: info\nrdma:\n  prot: 9100\n", "v.yaml");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), "v.yaml:3: unknown key 'rdma.prot'; did you mean rdma.port?");
  EXPECT_EQ(apply_yaml(config, "zzzzzzzzzzzzzzzz: 1", "v.yaml").error(), "v.yaml:1: unknown key 'zzzzzzzzzzzzzzzz'");
}

TEST(Config, BadValuesSayWhatIsWanted) {
  Config config;
  const std::pair<const char*, const char*> cases[] = {
      {"http: {port: 70000}", "v.yaml:1: http.port: not a number from 0 to 65535"},
      {"http: {port: -1}", "v.yaml:1: http.port: not a number from 0 to 65535"},
      {"arena_size: huge", "v.yaml:1: arena_size: not a size from 16 MiB to 4 TiB"},
      {"rdma: {provider: shm}", "v.yaml:1: rdma.provider: 'shm' is not one of auto, verbs, efa, cxi, tcp, local"},
      {"rdma: {fabric_ports: 9200-9100}", "v.yaml:1: rdma.fabric_ports: not a range like 9101-9116"},
      {"rdma: {token_provider: shm}",
       "v.yaml:1: rdma.token_provider: 'shm' is not one of auto, none, verbs, efa, cxi, tcp, rc, dc"},
      {"rdma: {token_provider: [none, tcp]}", "v.yaml:1: rdma.token_provider: 'none' stands alone"},
      {"rdma: {token_ports: 0-10}", "v.yaml:1: rdma.token_ports: not a range like 9101-9116"},
      {"admin: {console_provider: http://id.example.com}",
       "v.yaml:1: admin.console_provider: not an address like https://id.example.com/realm"},
      {"admin: {console_provider: \"https://id.example.com; script-src x\"}",
       "v.yaml:1: admin.console_provider: not an address like https://id.example.com/realm"},
      {"rdma: {pkey: 32769}", "v.yaml:1: rdma.pkey: not a partition key from 0x0001 to 0xffff, like 0x8001"},
      {"rdma: {pkey: 0x8000}", "v.yaml:1: rdma.pkey: not a partition key from 0x0001 to 0xffff, like 0x8001"},
      {"rdma: {pkey: 0x18001}", "v.yaml:1: rdma.pkey: not a partition key from 0x0001 to 0xffff, like 0x8001"},
      {"rdma: {vlan: 4095}", "v.yaml:1: rdma.vlan: not a number from 1 to 4094"},
      {"log_level: [a]", "v.yaml:1: log_level wants one value"},
      {"http: 3", "v.yaml:1: http wants keys"},
      {"region: a\nregion: b", "v.yaml:2: region stands here twice"},
      {"just text", "v.yaml:1: wants 'key: value' lines"},
  };
  for (const auto& [text, message] : cases) {
    const auto done = apply_yaml(config, text, "v.yaml");
    ASSERT_FALSE(done) << text;
    EXPECT_EQ(done.error(), message);
  }
}

TEST(Config, APartitionAndAVlanChooseAVerbsDevice) {
  Config config;
  ASSERT_TRUE(apply_yaml(config, "rdma: {pkey: 0x8001}", "v.yaml"));
  EXPECT_EQ(config.rdma.pkey, 0x8001);
  EXPECT_TRUE(check(config));
  config.rdma.vlan = 100;
  EXPECT_EQ(check(config).error(), "rdma.pkey is of InfiniBand and rdma.vlan of Ethernet: set one of them");
  config.rdma.pkey.reset();
  EXPECT_TRUE(check(config));
  config.rdma.provider = {"tcp"};
  EXPECT_FALSE(check(config));
}

TEST(Config, HostileFilesAreRefusedBeforeTheParser) {
  Config config;
  EXPECT_FALSE(apply_yaml(config, std::string(100'000, '['), "v.yaml"));
  EXPECT_FALSE(apply_yaml(config, "a: &x [1]\nb: *x\n", "v.yaml"));
  EXPECT_FALSE(apply_yaml(config, std::string(2 * MiB, ' '), "v.yaml"));
  std::string stairs;
  for (int i = 0; i < 2000; ++i) stairs += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_FALSE(apply_yaml(config, stairs, "v.yaml"));
  EXPECT_FALSE(apply_yaml(config, std::string(3000, '-').replace(1, 1, " "), "v.yaml"));
}

TEST(Config, TheEnvironmentOverridesAndIsCheckedToo) {
  Config config;
  const char* good[] = {"PATH=/bin", "VERBENA_RDMA_PORT=9400", "VERBENA_ROOT_SECRET_KEY=x", nullptr};
  const std::string_view ignored[] = {"VERBENA_ROOT_SECRET_KEY"};
  ASSERT_TRUE(apply_environment(config, good, ignored));
  EXPECT_EQ(config.rdma.port, 9400);
  const char* bad[] = {"VERBENA_RDMA_PROT=9400", nullptr};
  EXPECT_EQ(apply_environment(config, bad, ignored).error(),
            "environment: unknown variable VERBENA_RDMA_PROT; did you mean VERBENA_RDMA_PORT?");
}

TEST(Config, VariablesThatDescribeAServiceOfThisNameAreNotKeys) {
  Config config;
  const char* kubernetes[] = {"VERBENA_SERVICE_HOST=10.0.0.1", "VERBENA_SERVICE_PORT_HTTP=9000",
                              "VERBENA_PORT=tcp://10.0.0.1:9000", "VERBENA_PORT_9000_TCP_ADDR=10.0.0.1", nullptr};
  EXPECT_TRUE(apply_environment(config, kubernetes, {}));
}

TEST(Config, ASizeMayBeLeftToTheServer) {
  Config config;
  const char* fixed[] = {"VERBENA_DATA_KEEP_FREE=1GiB", nullptr};
  EXPECT_TRUE(apply_environment(config, fixed, {}));
  EXPECT_EQ(config.keep_free, 1 * GiB);
  const char* automatic[] = {"VERBENA_DATA_KEEP_FREE=auto", nullptr};
  EXPECT_TRUE(apply_environment(config, automatic, {}));
  EXPECT_EQ(config.keep_free, std::nullopt);
  const char* wrong[] = {"VERBENA_DATA_KEEP_FREE=some", nullptr};
  EXPECT_FALSE(apply_environment(config, wrong, {}));
}

TEST(Config, WhatHoldsBetweenKeysIsChecked) {
  Config config;
  config.tls.key = "key.pem";
  EXPECT_FALSE(check(config));
  config = {};
  config.rdma.enable_zero_copy = false;
  EXPECT_FALSE(check(config));
  config = {};
  config.dpu.enable_rdma = true;
  EXPECT_FALSE(check(config));
  config.dpu.enabled = true;
  EXPECT_TRUE(check(config));
  config = {};
  config.rdma.provider = {"tcp"};
  config.rdma.device_name = "mlx5_0";
  EXPECT_FALSE(check(config));
}

// Connections were split between them at random.
TEST(Config, TwoListenersDoNotShareAPort) {
  Config config;
  config.tls = {.certificate = "c.pem", .key = "k.pem"};
  auto& own = config.sign_in.certificates;
  own.ca_file = "ca.pem";
  EXPECT_TRUE(check(config));
  config.admin.port = 9002;
  for (const uint16_t taken : {config.http.port, config.rdma.port, uint16_t(9002)}) {
    own.port = taken;
    const auto sound = check(config);
    ASSERT_FALSE(sound) << taken;
    EXPECT_NE(sound.error().find("sign_in.certificates.port"), std::string::npos) << sound.error();
  }
  own.address = "192.0.2.1";
  EXPECT_TRUE(check(config)) << "127.0.0.1 is another address";
  config.admin.address = "*";
  EXPECT_FALSE(check(config));
  config.admin.enabled = false;
  EXPECT_TRUE(check(config));
  own.address = "0.0.0.0";
  config.http.port = own.port;
  EXPECT_FALSE(check(config));
  config.http.port = own.port = 0;
  EXPECT_TRUE(check(config)) << "any free ones";
}

TEST(Config, KeysThatNobodyWouldLookAtAreMistakes) {
  for (const char* key :
       {"user_dn", "lookup_dn", "lookup_password_file", "user_base", "group_base", "ca_file", "role"}) {
    Config config;
    ASSERT_TRUE(apply_value(config, std::string("sign_in.ldap.") + key, "x", "test")) << key;
    const auto sound = check(config);
    ASSERT_FALSE(sound) << key;
    EXPECT_EQ(sound.error(), std::string("sign_in.ldap.") + key + " needs sign_in.ldap.url");
    config.sign_in.ldap.url = "ldaps://h";
    EXPECT_TRUE(check(config)) << key;
  }
  Config config;
  config.sign_in.certificates.crl_file = "crl.pem";
  EXPECT_FALSE(check(config));
}

TEST(Config, RemembersWhereEachValueCameFrom) {
  Config config;
  ASSERT_TRUE(apply_yaml(config, "region: a\nhttp:\n  port: 1234\n  idle_timeout: 9\n", "v.yaml"));
  const char* environment[] = {"VERBENA_HTTP_PORT=2345", "VERBENA_REGION=b", nullptr};
  ASSERT_TRUE(apply_environment(config, environment, {}));
  ASSERT_TRUE(apply_value(config, "region", "c"));
  EXPECT_EQ(config.origins.at("http.idle_timeout").source, "v.yaml:4");
  EXPECT_EQ(config.origins.at("http.port").source, "variable VERBENA_HTTP_PORT");
  EXPECT_EQ(config.origins.at("http.port").text, "2345");
  EXPECT_EQ(config.origins.at("region").source, "flag");
  EXPECT_FALSE(apply_value(config, "http.port", "none"));
  EXPECT_EQ(config.origins.at("http.port").text, "2345") << "what was refused is not in force";
  EXPECT_FALSE(config.origins.contains("domain"));
}

TEST(Config, ADomainIsComparedAsHostsAre) {
  Config config;
  ASSERT_TRUE(apply_value(config, "domain", "S3.Example.com."));
  EXPECT_EQ(config.domain, "s3.example.com");
}

TEST(Config, ShowsNoSecret) {
  const auto show = [](std::string_view name, std::string_view text) {
    for (const ConfigKey& key : config_keys()) {
      if (key.name == name) return shown_value(key, text);
    }
    return std::string("no such key");
  };
  EXPECT_EQ(show("traces.headers", "authorization=Bearer x"), "***");
  EXPECT_EQ(show("traces.headers", ""), "");
  EXPECT_EQ(show("traces.endpoint", "http://127.0.0.1:4318/v1"), "http://127.0.0.1:4318/v1");
  EXPECT_EQ(show("traces.endpoint", "http://u:w,o?r@d@host/x?token=y"), "http://***@host/x?***");
  EXPECT_EQ(show("rdma.token_networks", "10.0.0.0/8,127.0.0.0/8"), "10.0.0.0/8,127.0.0.0/8");
  EXPECT_EQ(show("region", "us-east-1"), "us-east-1");
}

TEST(Config, EncryptedRdmaServesTokensOverHttpsAlone) {
  Config config;
  EXPECT_FALSE(apply_value(config, "rdma.encryption", "on"));
  ASSERT_TRUE(apply_value(config, "rdma.encryption", "required"));
  EXPECT_TRUE(check(config));
  config.rdma.token_provider = {"verbs"};
  EXPECT_TRUE(check(config).error().starts_with("rdma.token_provider verbs: "));
  EXPECT_FALSE(tokens_may_be_served(config));
  config.tls.certificate = "server.pem", config.tls.key = "server.key";
  EXPECT_TRUE(check(config));
  EXPECT_TRUE(tokens_may_be_served(config));
  config.rdma.token_provider = {"verbs", "rc"};
  EXPECT_TRUE(check(config).error().starts_with("rdma.token_provider rc: "));
  config.rdma.token_provider = {"verbs", "dc"};
  EXPECT_TRUE(check(config).error().starts_with("rdma.token_provider dc: "));
  config.rdma.token_provider = {"none"};
  EXPECT_TRUE(check(config));
  config.dpu.enabled = config.dpu.enable_crypto = true;
  EXPECT_TRUE(check(config));
  config.rdma.encryption = RdmaEncryption::preferred;
  EXPECT_TRUE(check(config).error().starts_with("dpu.enable_crypto: "));
}

TEST(Config, EncryptedRdmaLeavesNoTcpInTheClear) {
  Config config;
  ASSERT_TRUE(apply_value(config, "rdma.tcp_encryption", "off"));
  EXPECT_TRUE(check(config));
  ASSERT_TRUE(apply_value(config, "rdma.encryption", "required"));
  EXPECT_TRUE(check(config).error().starts_with("rdma.tcp_encryption: off: ")) << check(config).error();
  ASSERT_TRUE(apply_value(config, "rdma.tcp_encryption", "on"));
  EXPECT_TRUE(check(config));
}

TEST(Config, ACollectorIsAnAddressAndARatioAPart) {
  Config config;
  EXPECT_FALSE(apply_value(config, "traces.endpoint", "collector:4318"));
  EXPECT_TRUE(apply_value(config, "traces.endpoint", "https://collector"));
  for (const char* wrong : {"", "2", "-0.1", "half", "nan", "1e400"}) {
    EXPECT_FALSE(apply_value(config, "traces.sample_ratio", wrong)) << wrong;
  }
  EXPECT_TRUE(apply_value(config, "traces.sample_ratio", "0.25"));
  EXPECT_DOUBLE_EQ(config.traces.sample_ratio, 0.25);
}

}  // namespace
}  // namespace verbena
