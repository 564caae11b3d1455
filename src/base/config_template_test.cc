#include "base/config_template.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/config.h"

namespace verbena {
namespace {

// The template with every key set: a '#' that no single space follows is a key's.
std::string all_set() {
  std::string out, line;
  for (std::istringstream lines(config_template()); std::getline(lines, line);) {
    const bool remark = line.empty() || line[0] != '#' || (line[1] == ' ' && line[2] != ' ');
    if (!remark) out += line.substr(1) + "\n";
  }
  return out;
}

TEST(ConfigTemplate, AsItComesSetsNothing) {
  Config config;
  EXPECT_TRUE(apply_yaml(config, config_template(), "template"));
  for (std::istringstream lines(config_template()); !lines.eof();) {
    std::string line;
    std::getline(lines, line);
    EXPECT_TRUE(line.empty() || line.starts_with('#')) << line;
  }
}

TEST(ConfigTemplate, WithEveryKeySetIsTheDefaultConfiguration) {
  Config config;
  const auto done = apply_yaml(config, all_set(), "template");
  ASSERT_TRUE(done) << done.error();
  ASSERT_TRUE(check(config)) << check(config).error();
  const Config fresh;
  EXPECT_EQ(config.arena_size, fresh.arena_size);
  EXPECT_EQ(config.http.connections_per_client_max, fresh.http.connections_per_client_max);
  EXPECT_EQ(config.rdma.session_idle_timeout, fresh.rdma.session_idle_timeout);
  EXPECT_EQ(config.rdma.provider, fresh.rdma.provider);
}

TEST(ConfigTemplate, NamesEveryKeyOnceUnderItsSection) {
  std::map<std::string, int> seen;
  std::string section, line;
  for (std::istringstream lines(all_set()); std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(':'));
    if (name.starts_with("  ")) {
      ++seen[section + "." + name.substr(2)];
    } else if (line.ends_with(':') && name != "domain") {
      section = name;
    } else {
      ++seen[name];
    }
  }
  for (const auto& key : config_keys()) EXPECT_EQ(seen[std::string(key.name)], 1) << key.name;
  EXPECT_EQ(seen.size(), config_keys().size());
}

}  // namespace
}  // namespace verbena
