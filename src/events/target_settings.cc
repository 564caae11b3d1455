#include "events/target_settings.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/private_file.h"
#include "events/target_url.h"

namespace verbena::events {
namespace {

constexpr size_t target_name_max = 64, secrets_bytes_max = 64 * 1024;
using Wrong = std::unexpected<std::string>;

// Names are part of ARNs, store rows and metrics.
bool is_target_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= target_name_max && std::ranges::all_of(name, plain);
}

std::expected<TargetSettings, std::string> parse_target(const std::string& text) {
  const size_t equals = text.find('=');
  TargetSettings target;
  target.name = text.substr(0, equals);
  if (equals == std::string::npos || !is_target_name(target.name)) {
    return Wrong("events.targets: '" + log::printable(target.name, 64) +
                 "' is no name for a target (NAME=URL; lower-case letters, digits, - and _)");
  }
  // The URL is not shown: it may contain a password.
  if (!parse_target_url(std::string_view(text).substr(equals + 1), target)) {
    return Wrong("events.targets: " + target.name +
                 " needs a URL: http(s)://HOST/PATH, redis://HOST:PORT/DATABASE/LIST, nats(+tls)://HOST:PORT/SUBJECT, "
                 "mqtt(s)://HOST:PORT/TOPIC, amqp(s)://HOST:PORT/VHOST/EXCHANGE/KEY, kafka(+tls)://HOST:PORT/TOPIC or "
                 "file:///PATH; secrets stand in events.secrets");
  }
  return target;
}

// The error must not contain the secret.
std::expected<void, std::string> check_secret(const TargetSettings& target) {
  const bool named =
      target.type == TargetType::mqtt || target.type == TargetType::amqp || target.type == TargetType::kafka;
  const size_t colon = target.secret.find(':');
  if (named && (colon == std::string::npos || colon == 0)) {
    return Wrong("events.secrets: " + target.name + " needs USER:PASSWORD");
  }
  if (target.type == TargetType::kafka && target.sasl.empty()) {
    return Wrong("events.secrets: " + target.name +
                 " needs to know how to show it: ?sasl=scram-sha-512, scram-sha-256 or plain behind the topic");
  }
  if (target.type == TargetType::file) {
    return Wrong("events.secrets: " + target.name + " is of a kind that is spoken to without a secret");
  }
  return {};
}

std::expected<void, std::string> check_sasl(const TargetSettings& target) {
  if (target.sasl.empty()) return {};
  if (target.secret.empty()) return Wrong("events.targets: " + target.name + " needs a line in events.secrets");
  if (target.sasl == "PLAIN" && !target.tls) {
    return Wrong("events.targets: " + target.name + " would show its password to everybody: kafka+tls, or scram");
  }
  return {};
}

// Lines "NAME SECRET".
std::expected<std::map<std::string, std::string>, std::string> read_secrets(const std::string& path) {
  std::map<std::string, std::string> secrets;
  if (path.empty()) return secrets;
  const auto read = read_secret_file(path, secrets_bytes_max, not_for_everybody);
  if (!read) return Wrong("events.secrets: " + log::printable(path, 256) + " " + read.error());
  const std::string_view text = read->text();
  for (size_t at = 0, line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 1;
    if (one.empty() || one.starts_with('#')) continue;
    const size_t blank = one.find(' ');
    if (blank == std::string_view::npos || !is_visible(one.substr(blank + 1)) || blank + 1 == one.size()) {
      return Wrong("events.secrets: line " + std::to_string(line) + " is not NAME SECRET");
    }
    secrets[std::string(one.substr(0, blank))] = one.substr(blank + 1);
  }
  return secrets;
}

}  // namespace

std::string type_name(TargetType type) {
  switch (type) {
    case TargetType::webhook:
      return "webhook";
    case TargetType::redis:
      return "redis";
    case TargetType::file:
      return "file";
    case TargetType::nats:
      return "nats";
    case TargetType::mqtt:
      return "mqtt";
    case TargetType::amqp:
      return "amqp";
    case TargetType::kafka:
      return "kafka";
  }
  return {};
}

std::expected<std::vector<TargetSettings>, std::string> read_targets(const Config::Events& config) {
  std::vector<TargetSettings> targets;
  for (const std::string& text : config.targets) {
    auto target = parse_target(text);
    if (!target) return Wrong(target.error());
    target->timeout = config.timeout;
    target->ca_file = config.ca_file;
    const auto same = [&](const TargetSettings& other) { return other.name == target->name; };
    if (std::ranges::any_of(targets, same)) return Wrong("events.targets: " + target->name + " stands there twice");
    const auto same_file = [&](const TargetSettings& other) {
      return other.type == TargetType::file && target->type == TargetType::file && other.path == target->path;
    };
    if (std::ranges::any_of(targets, same_file)) return Wrong("events.targets: two targets write to one file");
    targets.push_back(std::move(*target));
  }
  const auto find = [&](const std::string& name) { return std::ranges::find(targets, name, &TargetSettings::name); };
  const auto secrets = read_secrets(config.secrets);
  if (!secrets) return Wrong(secrets.error());
  for (const auto& [name, secret] : *secrets) {
    const auto target = find(name);
    if (target == targets.end()) {
      return Wrong("events.secrets: there is no target '" + log::printable(name, 64) + "' in events.targets");
    }
    target->secret = secret;
    if (auto fits = check_secret(*target); !fits) return Wrong(fits.error());
  }
  for (const std::string& name : config.allow_private) {
    const auto target = find(name);
    if (target == targets.end()) {
      return Wrong("events.allow_private: there is no target '" + log::printable(name, 64) + "' in events.targets");
    }
    target->allow_private = true;
  }
  for (const TargetSettings& target : targets) {
    if (auto sound = check_sasl(target); !sound) return Wrong(sound.error());
  }
  return targets;
}

}  // namespace verbena::events
