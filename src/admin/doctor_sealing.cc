// Checks of sealed RDMA (docs/sealed-rdma.md): the ciphers, and what a configuration leaves in the clear.
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "admin/doctor.h"
#include "base/ephemeral_key.h"

namespace verbena::admin {
namespace {

// Behind what rdma.encryption means, if entries of `listeners` have rules of their own.
constexpr std::string_view elsewhere = " (where no entry of listeners says otherwise)";

std::string_view meaning_of(RdmaEncryption encryption) {
  switch (encryption) {
    case RdmaEncryption::required:
      return "required: RDMA of the native door is encrypted, and RDMA tokens are served only sealed, over https";
    case RdmaEncryption::preferred:
      return "preferred: RDMA of the native door is encrypted for clients that ask for it";
    case RdmaEncryption::off:
      break;
  }
  return "off: RDMA is never encrypted";
}

bool names(const std::vector<std::string>& providers, std::string_view one) {
  return std::ranges::any_of(providers, [one](const std::string& name) { return name == one || name == "auto"; });
}

// Besides local and tcp.
bool names_devices(const std::vector<std::string>& providers) {
  return std::ranges::any_of(providers, [](const std::string& name) { return name != "local" && name != "tcp"; });
}

// For clients with this rule.
std::vector<std::string_view> left_plain(const Config::Rdma& rdma, RdmaEncryption rule) {
  std::vector<std::string_view> out;
  const bool tokens = std::ranges::any_of(rdma.token_provider, [](const std::string& name) { return name != "none"; });
  if (tokens && rule != RdmaEncryption::required)
    out.push_back("RDMA tokens that are not sealed (rdma.token_provider)");
  if (names_devices(rdma.provider) && rule == RdmaEncryption::preferred) {
    out.push_back("RDMA of native clients that do not ask for encryption");
  }
  if (names_devices(rdma.provider) && rule == RdmaEncryption::off) out.push_back("RDMA of native clients");
  if (names(rdma.provider, "tcp") && !rdma.tcp_encryption) out.push_back("the native door's tcp (rdma.tcp_encryption)");
  return out;
}

// `key`: the one that has this rule.
Finding judge_plain(const Config::Rdma& rdma, RdmaEncryption rule, std::string subject, std::string_view key) {
  Finding plain{Health::ok, std::move(subject), fmt::format("{}", fmt::join(left_plain(rdma, rule), "; ")), {}};
  if (plain.found.empty()) {
    plain.found = "none leaves the host by RDMA or the native door";
    return plain;
  }
  plain.mend = fmt::format("for networks that are not trusted: {}: required", key);
  if (!rdma.tcp_encryption) plain.mend += ", and rdma.tcp_encryption: on";
  // Encryption is asked for here, and not there.
  if (rule != RdmaEncryption::off && names(rdma.provider, "tcp") && !rdma.tcp_encryption) plain.health = Health::warn;
  return plain;
}

// "10.1.0.0/16, fd00::/8", or the first few of many.
std::string some_of(const std::vector<std::string>& networks) {
  constexpr size_t shown_max = 8;
  const size_t shown = std::min(networks.size(), shown_max);
  std::string out = fmt::format("{}", fmt::join(networks.begin(), networks.begin() + shown, ", "));
  if (networks.size() > shown) out += fmt::format(" and {} more", networks.size() - shown);
  return out;
}

}  // namespace

Finding judge_ciphers(const std::string& aes_instructions, AeadKind used, bool has_chacha) {
  Finding out{Health::ok, "ciphers of sealed RDMA", {}, {}};
  if (used == AeadKind::aes_256_gcm) {
    out.found = fmt::format("aes-256-gcm is used, {}; {}",
                            aes_instructions.empty() ? "without AES instructions" : "by " + aes_instructions,
                            has_chacha ? "chacha20-poly1305 for clients without AES instructions"
                                       : "chacha20-poly1305 is forbidden by this machine's OpenSSL");
  } else {
    out.found = fmt::format("chacha20-poly1305 is used: {}; aes-256-gcm for clients that have nothing else",
                            aes_instructions.empty() ? "the processor has no AES instructions"
                                                     : "the processor has no carry-less multiplication");
  }
  return out;
}

Findings check_sealing(const Config& config) {
  const Config::Rdma& rdma = config.rdma;
  if (!rdma.enabled) return {};
  Findings out{{Health::ok, "rdma.encryption", std::string(meaning_of(rdma.encryption)), {}},
               judge_plain(rdma, rdma.encryption, "payload in the clear", "rdma.encryption")};
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    const Config::Listener& one = config.listeners[i];
    if (!one.encryption) continue;
    const std::string key = fmt::format("listeners[{}].encryption", i), networks = some_of(one.networks);
    out.push_back({Health::ok, key, fmt::format("for {}: {}", networks, meaning_of(*one.encryption)), {}});
    out.push_back(judge_plain(rdma, *one.encryption, "payload in the clear for " + networks, key));
  }
  if (out.size() > 2) {
    for (Finding& finding : std::span(out).first(2)) finding.found += elsewhere;
  }
  if (rdma_may_be_sealed(config) && !EphemeralKey::available()) {
    out.push_back(
        {Health::warn, "forward secrecy",
         "this machine's OpenSSL has no X25519: sealed sessions have none, and where encryption is required no "
         "RDMA is served",
         "allow X25519 in OpenSSL's configuration, or serve such clients by tcp or https"});
  }
  return out;
}

}  // namespace verbena::admin
