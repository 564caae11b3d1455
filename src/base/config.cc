#include "base/config.h"

#include <arpa/inet.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/config_yaml.h"

namespace verbena {
namespace {

constexpr size_t file_size_max = 1 * MiB;
constexpr int depth_max = 4;  // of sections

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// "; did you mean rdma.port?", or nothing when no key is near.
template <class Name>
std::string suggestion(std::string_view unknown, Name name_of) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const auto& key : config_keys()) {
    const std::string name = name_of(key);
    const size_t distance = edit_distance(unknown.substr(0, 64), name);
    if (distance < best_distance) best_distance = distance, best = name;
  }
  return best_distance <= std::max<size_t>(3, best.size() / 3) ? "; did you mean " + best + "?" : "";
}

const ConfigKey* find_key(std::string_view name) {
  for (const auto& key : config_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// Empty on success, else the error.
std::string assign(Config& config, const ConfigKey& key, const std::string& text, std::string source) {
  auto problem = key.set(config, text);
  if (problem.empty()) config.origins.insert_or_assign(std::string(key.name), ConfigOrigin{text, std::move(source)});
  return problem;
}

std::string unknown_key(std::string_view name) {
  return "unknown key '" + log::printable(name, 64) + "'" +
         suggestion(name, [](const ConfigKey& key) { return std::string(key.name); });
}

bool is_section(std::string_view name) {
  return std::any_of(config_keys().begin(), config_keys().end(), [&](const ConfigKey& key) {
    return key.name.size() > name.size() && key.name.starts_with(name) && key.name[name.size()] == '.';
  });
}

// A scalar, or a sequence of scalars joined by commas for keys that take lists.
std::expected<std::string, std::string> text_of(const YAML::Node& node, const ConfigKey& key) {
  if (node.IsNull()) return "";
  if (key.nested && (node.IsMap() || node.IsSequence())) return flow_text(node);
  if (node.IsScalar()) return node.Scalar();
  if (!node.IsSequence() || !key.list) return std::unexpected(key.list ? "wants a value or a list" : "wants one value");
  std::string joined;
  for (const auto& item : node) {
    if (!item.IsScalar()) return std::unexpected("wants a list of plain values");
    joined += (joined.empty() ? "" : ",") + item.Scalar();
  }
  return joined;
}

class YamlWalk {
 public:
  YamlWalk(Config& config, std::string_view origin) : config_(config), origin_(origin) {}

  ConfigResult walk(const YAML::Node& node, const std::string& prefix, int depth) {
    if (node.IsNull()) return {};
    if (!node.IsMap() || depth > depth_max)
      return wrong(node, prefix.empty() ? "wants 'key: value' lines" : prefix + " wants keys");
    std::vector<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return wrong(entry.first, "a key must be a plain word");
      const std::string name = prefix.empty() ? entry.first.Scalar() : prefix + "." + entry.first.Scalar();
      if (std::find(seen.begin(), seen.end(), name) != seen.end())
        return wrong(entry.first, name + " stands here twice");
      seen.push_back(name);
      if (auto done = set(name, entry.first, entry.second, depth); !done) return done;
    }
    return {};
  }

 private:
  ConfigResult set(const std::string& name, const YAML::Node& at, const YAML::Node& value, int depth) {
    const ConfigKey* key = find_key(name);
    if (key == nullptr) {
      if (is_section(name)) return walk(value, name, depth + 1);
      return wrong(at, unknown_key(name));
    }
    const auto text = text_of(value, *key);
    if (!text) return wrong(value, name + " " + text.error());
    if (text->empty()) return {};  // an empty value leaves the default
    const std::string source = std::string(origin_) + ":" + std::to_string(value.Mark().line + 1);
    if (auto problem = assign(config_, *key, *text, source); !problem.empty())
      return wrong(value, name + ": " + problem);
    return {};
  }

  std::unexpected<std::string> wrong(const YAML::Node& node, const std::string& text) const {
    return std::unexpected(std::string(origin_) + ":" + std::to_string(node.Mark().line + 1) + ": " + text);
  }

  Config& config_;
  std::string_view origin_;
};

constexpr std::string_view hidden = "***";

// "amqp://user:word@host/x?token=y" -> "amqp://***@host/x?***". Everything before the last '@' is treated as a secret.
void append_without_secrets(std::string& out, std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) {
    out += text;
    return;
  }
  out += text.substr(0, scheme + 3);
  std::string_view rest = text.substr(scheme + 3);
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    out += hidden;
    rest.remove_prefix(at);
  }
  const size_t query = std::min(rest.find_first_of("?#"), rest.size());
  out += rest.substr(0, query);
  if (query < rest.size()) out.append(rest.substr(query, 1)).append(hidden);
}

// Kubernetes and Docker describe a service called "verbena" to every container in variables of these names
// (VERBENA_SERVICE_HOST, VERBENA_PORT_9000_TCP_ADDR); they are not configuration.
bool describes_a_service(std::string_view variable) {
  return variable.starts_with("VERBENA_SERVICE_") || variable == "VERBENA_PORT" ||
         variable.starts_with("VERBENA_PORT_");
}

}  // namespace

std::string environment_name(const ConfigKey& key) {
  std::string name = "VERBENA_";
  for (const char c : key.name) name += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

ConfigResult apply_yaml(Config& config, std::string_view text, std::string_view origin) {
  if (text.size() > file_size_max)
    return std::unexpected(std::string(origin) + ": larger than " + format_size(file_size_max));
  if (auto shape = check_yaml_shape(text, origin); !shape) return shape;
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
    return YamlWalk(config, origin).walk(root, "", 0);
  } catch (const YAML::Exception& e) {
    return std::unexpected(std::string(origin) + ":" + std::to_string(e.mark.line + 1) + ": " + e.msg);
  }
}

ConfigResult apply_environment(Config& config, const char* const* environment,
                               std::span<const std::string_view> ignored) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const size_t equals = entry.find('=');
    if (!entry.starts_with("VERBENA_") || equals == std::string_view::npos) continue;
    const auto name = entry.substr(0, equals);
    if (std::find(ignored.begin(), ignored.end(), name) != ignored.end() || describes_a_service(name)) continue;
    const auto key = std::find_if(config_keys().begin(), config_keys().end(),
                                  [&](const ConfigKey& k) { return environment_name(k) == name; });
    if (key == config_keys().end()) {
      return std::unexpected("environment: unknown variable " + log::printable(name, 64) +
                             suggestion(name, environment_name));
    }
    const std::string text(entry.substr(equals + 1));
    if (auto problem = assign(config, *key, text, "variable " + std::string(name)); !problem.empty()) {
      return std::unexpected("environment: " + std::string(name) + ": " + problem);
    }
  }
  return {};
}

ConfigResult apply_value(Config& config, std::string_view name, const std::string& text, std::string_view source) {
  const ConfigKey* key = find_key(name);
  if (key == nullptr) return std::unexpected(unknown_key(name));
  if (auto problem = assign(config, *key, text, std::string(source)); !problem.empty())
    return std::unexpected(std::string(name) + ": " + problem);
  return {};
}

std::string shown_value(const ConfigKey& key, std::string_view text) {
  if (key.secret) return std::string(text.empty() ? "" : hidden);
  std::string shown;
  while (!text.empty()) {
    const size_t end = key.list ? std::min(text.find(','), text.size()) : text.size();
    if (!shown.empty()) shown += ',';
    append_without_secrets(shown, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shown;
}

namespace {

// A key without effect is reported: its author believes that it does something.
ConfigResult check_sign_in(const Config::SignIn& config, const Config::Tls& tls) {
  if (config.ldap.url.empty()) {
    const std::pair<const char*, bool> set[] = {{"user_dn", !config.ldap.user_dn.empty()},
                                                {"lookup_dn", !config.ldap.lookup_dn.empty()},
                                                {"lookup_password_file", !config.ldap.lookup_password_file.empty()},
                                                {"user_base", !config.ldap.user_base.empty()},
                                                {"group_base", !config.ldap.group_base.empty()},
                                                {"ca_file", !config.ldap.ca_file.empty()},
                                                {"role", !config.ldap.role.empty()},
                                                {"insecure", config.ldap.insecure}};
    for (const auto& [name, is_set] : set) {
      if (is_set) return std::unexpected(std::string("sign_in.ldap.") + name + " needs sign_in.ldap.url");
    }
  }
  if (config.certificates.ca_file.empty() && !config.certificates.crl_file.empty()) {
    return std::unexpected("sign_in.certificates.crl_file needs sign_in.certificates.ca_file");
  }
  if (!config.certificates.ca_file.empty() && tls.certificate.empty()) {
    return std::unexpected("sign_in.certificates.ca_file: certificates are shown over TLS: set tls.certificate, too");
  }
  return {};
}

// Whether two addresses are different addresses of this machine, both specific.
bool are_apart(const std::string& one, const std::string& other) {
  in_addr a{}, b{};
  return ::inet_pton(AF_INET, one.c_str(), &a) == 1 && ::inet_pton(AF_INET, other.c_str(), &b) == 1 &&
         a.s_addr != INADDR_ANY && b.s_addr != INADDR_ANY && a.s_addr != b.s_addr;
}

std::string listener_name(size_t index) { return "listeners[" + std::to_string(index) + "]"; }

// Listeners on one port would share it (SO_REUSEPORT), and connections would be split among them at random.
ConfigResult check_ports(const Config& config) {
  struct Place {
    std::string key;
    std::string address;
    uint16_t port = 0;  // 0: none, or any free one
  };
  const auto& own = config.sign_in.certificates;
  std::vector<Place> places{
      {"http.port", config.http.address, config.http.port},
      {"rdma.port", config.rdma.address, config.rdma.enabled ? config.rdma.port : uint16_t(0)},
      {"admin.port", config.admin.address, config.admin.enabled ? config.admin.port.value_or(0) : uint16_t(0)},
      {"sign_in.certificates.port", own.address.empty() ? config.http.address : own.address,
       own.ca_file.empty() ? uint16_t(0) : own.port}};
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    places.push_back({listener_name(i) + ".address", config.listeners[i].address, config.listeners[i].port});
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& one = places[i];
    for (const Place& other : std::span(places).subspan(i + 1)) {
      if (one.port == 0 || one.port != other.port || are_apart(one.address, other.address)) continue;
      return std::unexpected(other.key + ": " + std::to_string(one.port) + " is " + one.key +
                             " already: each needs a port of its own");
    }
  }
  return {};
}

// Payload must not leave the host in the clear by another way. Providers for tokens that are named must serve, and
// their payload is not encrypted.
ConfigResult check_encryption(const Config& config) {
  const Config::Rdma& rdma = config.rdma;
  if (rdma.encryption == RdmaEncryption::required && !rdma.tcp_encryption) {
    return std::unexpected(
        "rdma.tcp_encryption: off: payload over tcp would not be encrypted, and rdma.encryption is required");
  }
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    const auto& own = config.listeners[i].encryption;
    if (own == RdmaEncryption::required && rdma.enabled && !rdma.tcp_encryption) {
      return std::unexpected(listener_name(i) + ".encryption: required needs rdma.tcp_encryption: on");
    }
    if (config.dpu.enable_crypto && own.value_or(RdmaEncryption::required) != RdmaEncryption::required) {
      return std::unexpected("dpu.enable_crypto: encrypts for every client, but " + listener_name(i) +
                             ".encryption is " + std::string(to_string(*own)));
    }
  }
  if (rdma_may_be_plain(config)) return {};
  for (const auto& name : rdma.token_provider) {
    if (name == "auto" || name == "none") continue;
    if (name == "rc" || name == "dc") {
      return std::unexpected("rdma.token_provider " + name +
                             ": its payload is never encrypted, and rdma.encryption is required");
    }
    if (tokens_may_be_served(config)) continue;
    return std::unexpected("rdma.token_provider " + name +
                           ": tokens are sealed over https alone, and rdma.encryption is required: set "
                           "tls.certificate and tls.key");
  }
  return {};
}

}  // namespace

bool rdma_may_be_plain(const Config& config) {
  const auto plain = [](RdmaEncryption one) { return one != RdmaEncryption::required; };
  return plain(config.rdma.encryption) || std::ranges::any_of(config.listeners, [&](const Config::Listener& one) {
           return one.encryption && plain(*one.encryption);
         });
}

bool rdma_may_be_sealed(const Config& config) {
  const auto sealed = [](RdmaEncryption one) { return one != RdmaEncryption::off; };
  return sealed(config.rdma.encryption) || std::ranges::any_of(config.listeners, [&](const Config::Listener& one) {
           return one.encryption && sealed(*one.encryption);
         });
}

bool tokens_may_be_served(const Config& config) {
  return rdma_may_be_plain(config) || (rdma_may_be_sealed(config) && !config.tls.certificate.empty());
}

ConfigResult check(const Config& config) {
  if (config.tls.certificate.empty() != config.tls.key.empty()) {
    return std::unexpected("tls.certificate and tls.key go together: one of them is missing");
  }
  if (auto sound = check_sign_in(config.sign_in, config.tls); !sound) return sound;
  if (auto sound = check_ports(config); !sound) return sound;
  if (!config.dpu.enabled && (config.dpu.enable_rdma || config.dpu.enable_crypto)) {
    return std::unexpected("dpu.enable_rdma and dpu.enable_crypto need dpu.enabled: true");
  }
  if (config.dpu.enable_crypto && config.rdma.encryption != RdmaEncryption::required) {
    return std::unexpected("dpu.enable_crypto: add rdma.encryption: required, which encrypts what RDMA devices move");
  }
  if (auto sound = check_encryption(config); !sound) return sound;
  if (!config.device.empty() && config.engine != EngineChoice::local) {
    return std::unexpected("data.device is for engine: local; with " + config.origins.at("engine").text +
                           " the cluster has the objects");
  }
  if (!config.rdma.enable_zero_copy) {
    return std::unexpected(
        "rdma.enable_zero_copy: false is not possible: every transfer starts in registered memory (leave the key out)");
  }
  if (config.cache.size.value_or(0) > config.arena_size / 4 * 3) {
    return std::unexpected("cache.size: at most three quarters of arena_size (" + format_size(config.arena_size) +
                           "): requests need the rest");
  }
  if (config.admin.console_provider.empty() != config.admin.console_client.empty()) {
    return std::unexpected("admin.console_provider and admin.console_client go together: one of them is missing");
  }
  if (config.rdma.pkey && config.rdma.vlan) {
    return std::unexpected("rdma.pkey is of InfiniBand and rdma.vlan of Ethernet: set one of them");
  }
  const bool names_hardware = !config.rdma.device_name.empty() || config.rdma.ib_port ||
                              config.rdma.gid_index != "auto" || config.rdma.pkey || config.rdma.vlan;
  const bool verbs_possible = std::any_of(config.rdma.provider.begin(), config.rdma.provider.end(),
                                          [](const std::string& p) { return p == "auto" || p == "verbs"; });
  if (config.rdma.enabled && names_hardware && !verbs_possible) {
    return std::unexpected(
        "rdma.device_name, rdma.ib_port, rdma.gid_index, rdma.pkey and rdma.vlan choose a verbs device, but "
        "rdma.provider names only " +
        config.rdma.provider.front());
  }
  return {};
}

std::string config_reference() {
  std::string text = "| key | environment | default | what it does |\n| --- | --- | --- | --- |\n";
  for (const auto& key : config_keys()) {
    text += "| `" + std::string(key.name) + "` | `" + environment_name(key) + "` | " +
            (key.fallback.empty() ? "" : "`" + std::string(key.fallback) + "`") + " | " + std::string(key.help) +
            " |\n";
  }
  return text;
}

}  // namespace verbena
