#include "settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace verbena::nixl {
namespace {

// A parameter: what NIXL's own plugin for object storage calls so means the same here.
struct Known {
  const char* name;
  const char* variable;  // of the environment, where the parameter is not given
  const char* otherwise;
};
constexpr std::array known = {
    Known{"bucket", "AWS_DEFAULT_BUCKET", ""},
    Known{"prefix", nullptr, ""},
    Known{"endpoint_override", "AWS_ENDPOINT_OVERRIDE", ""},
    Known{"scheme", nullptr, "http"},
    Known{"native", nullptr, ""},
    Known{"via", nullptr, "auto"},
    Known{"provider", nullptr, "auto"},
    Known{"access_key", "AWS_ACCESS_KEY_ID", ""},
    Known{"secret_key", "AWS_SECRET_ACCESS_KEY", ""},
    Known{"session_token", "AWS_SESSION_TOKEN", ""},
    Known{"region", "AWS_REGION", "us-east-1"},
    Known{"ca_bundle", "AWS_CA_BUNDLE", ""},
    Known{"num_threads", nullptr, "8"},
    Known{"timeout_s", nullptr, "60"},
};
// Of that plugin, without a meaning here: another HTTP library's, or of other vendors' servers.
constexpr std::array<std::string_view, 7> without_meaning = {
    "use_virtual_addressing", "req_checksum", "resp_checksum", "crtMinLimit",
    "throughput_target_gbps", "accelerated",  "type"};

std::string value_of(const Parameters& given, const Known& one) {
  if (const auto it = given.find(one.name); it != given.end()) return it->second;
  const char* const set = one.variable == nullptr ? nullptr : std::getenv(one.variable);
  return set == nullptr ? one.otherwise : set;
}

std::expected<unsigned, std::string> number(const Parameters& values, const char* name, unsigned most) {
  const std::string& text = values.at(name);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most) return value;
  return std::unexpected(std::string(name) + " is not a number from 1 to " + std::to_string(most));
}

std::string with_scheme(const std::string& endpoint, const std::string& scheme) {
  return endpoint.empty() || endpoint.contains("://") ? endpoint : scheme + "://" + endpoint;
}

}  // namespace

Parameters default_parameters() {
  Parameters out;
  for (const Known& one : known) out.emplace(one.name, one.otherwise);
  return out;
}

std::expected<Settings, std::string> parse_settings(const Parameters& given) {
  for (const auto& [name, value] : given) {
    const bool is_known = std::ranges::any_of(known, [&](const Known& one) { return name == one.name; });
    if (!is_known && std::ranges::find(without_meaning, name) == without_meaning.end()) {
      return std::unexpected("there is no parameter " + name);
    }
  }
  Parameters values;
  for (const Known& one : known) values.emplace(one.name, value_of(given, one));
  Settings out;
  out.bucket = values["bucket"];
  out.prefix = values["prefix"];
  if (out.bucket.empty()) return std::unexpected("the parameter bucket is missing");
  if (const auto endpoint = with_scheme(values["endpoint_override"], values["scheme"]); !endpoint.empty()) {
    out.client.endpoint = endpoint;
  }
  const auto via = parse_via(values["via"]);
  if (!via) return std::unexpected("via is none of auto, native, token, http");
  out.client.via = *via;
  out.client.provider = values["provider"];
  out.client.native_endpoint = values["native"];
  out.client.access_key = values["access_key"];
  out.client.secret_key = values["secret_key"];
  out.client.session_token = values["session_token"];
  out.client.region = values["region"];
  out.client.ca_file = values["ca_bundle"];
  const auto threads = number(values, "num_threads", 256), timeout = number(values, "timeout_s", 3600);
  if (!threads) return std::unexpected(threads.error());
  if (!timeout) return std::unexpected(timeout.error());
  out.client.async_threads = *threads;
  out.client.operation_timeout = std::chrono::seconds(*timeout);
  return out;
}

}  // namespace verbena::nixl
