#include "base/config_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/config.h"

namespace verbena {
namespace {

// The template with every key set: a '#' without a following single space belongs to a key.
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
  std::vector<std::string> sections;
  std::string line;
  for (std::istringstream lines(all_set()); std::getline(lines, line);) {
    if (line.empty()) continue;
    const size_t indent = line.find_first_not_of(' ');
    sections.resize(indent / 2);
    std::string name = line.substr(indent, line.find(':') - indent);
    if (!sections.empty()) name = sections.back() + "." + name;
    const bool is_key = std::ranges::any_of(config_keys(), [&](const auto& key) { return key.name == name; });
    if (is_key) {
      ++seen[name];
    } else {
      EXPECT_TRUE(line.ends_with(':')) << line;
      sections.push_back(name);
    }
  }
  for (const auto& key : config_keys()) EXPECT_EQ(seen[std::string(key.name)], 1) << key.name;
  EXPECT_EQ(seen.size(), config_keys().size());
}

}  // namespace
}  // namespace verbena
