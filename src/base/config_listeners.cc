// `listeners`: a list of maps, which the table of keys has as one value.
#include "base/config_yaml.h"
#include "base/listen_address.h"

namespace verbena {
namespace {

constexpr size_t text_size_max = 256 * KiB;
constexpr size_t listeners_max = 64, items_max = 256;

// A list of plain values, or one of them. Empty on success.
std::string read_items(const YAML::Node& node, std::vector<std::string>& into) {
  if (node.IsScalar()) {
    into.push_back(node.Scalar());
    return "";
  }
  if (!node.IsSequence()) return "wants a list";
  if (node.size() > items_max) return "more than " + std::to_string(items_max) + " items";
  for (const auto& item : node) {
    if (!item.IsScalar()) return "wants a list of plain values";
    into.push_back(item.Scalar());
  }
  return "";
}

std::string read_encryption(const YAML::Node& node, Config::Listener& into) {
  RdmaEncryption choice{};
  auto wrong = parse_rdma_encryption(choice, node.Scalar());  // no text if it is no scalar
  if (wrong.empty()) into.encryption = choice;
  return wrong;
}

std::string read_accounts(const YAML::Node& node, Config::Listener& into) {
  auto wrong = read_items(node, into.accounts.emplace());
  if (wrong.empty() && into.accounts->empty()) return "is empty: name an account, or leave the key out";
  return wrong;
}

// "10.0.0.5:9000", "[fd00::5]:9000", "*:9000".
std::string read_address(const YAML::Node& node, Config::Listener& into) {
  constexpr const char* wanted = "not an address and port like 10.0.0.5:9000 or [fd00::5]:9000";
  if (!node.IsScalar()) return wanted;
  auto read = parse_listen_address(node.Scalar());
  if (!read) return wanted;
  into.address = std::move(read->host);
  into.port = read->port;
  return "";
}

std::string read_field(const std::string& name, const YAML::Node& value, Config::Listener& into) {
  if (name == "networks") return into.networks.empty() ? read_items(value, into.networks) : "stands here twice";
  if (name == "encryption") return into.encryption ? "stands here twice" : read_encryption(value, into);
  if (name == "accounts") return into.accounts ? "stands here twice" : read_accounts(value, into);
  if (name == "address") return into.address.empty() ? read_address(value, into) : "stands here twice";
  return "unknown: an entry has networks, encryption, accounts and address";
}

// The error with the field's name before it.
std::string read_listener(const YAML::Node& node, Config::Listener& into) {
  if (!node.IsMap()) return ": wants 'networks:' and what applies to them";
  for (const auto& field : node) {
    const std::string name = field.first.IsScalar() ? field.first.Scalar() : "?";
    if (auto wrong = read_field(name, field.second, into); !wrong.empty()) {
      return "." + log::printable(name, 64) + ": " + wrong;
    }
  }
  return into.networks.empty() ? ".networks: is missing: name the clients' networks, like 10.0.0.0/8" : "";
}

}  // namespace

std::string parse_listeners(std::vector<Config::Listener>& into, const std::string& text) {
  if (text.size() > text_size_max) return "longer than " + format_size(text_size_max);
  if (auto shape = check_yaml_shape(text, "line"); !shape) return shape.error();
  std::vector<Config::Listener> all;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsSequence()) return "wants a list of entries with networks, encryption, accounts and address";
    if (root.size() > listeners_max) return "more than " + std::to_string(listeners_max) + " entries";
    for (const auto& node : root) {
      const std::string place = "[" + std::to_string(all.size()) + "]";
      if (auto wrong = read_listener(node, all.emplace_back()); !wrong.empty()) return place + wrong;
    }
  } catch (const YAML::Exception& e) {
    return e.msg;
  }
  into = std::move(all);
  return "";
}

}  // namespace verbena
