// Checks of sealed RDMA (docs/sealed-rdma.md): the ciphers, and what a configuration leaves in the clear.
#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "admin/doctor.h"
#include "base/ephemeral_key.h"

namespace verbena::admin {
namespace {

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

std::vector<std::string_view> left_plain(const Config::Rdma& rdma) {
  std::vector<std::string_view> out;
  const bool required = rdma.encryption == RdmaEncryption::required;
  const bool tokens = std::ranges::any_of(rdma.token_provider, [](const std::string& name) { return name != "none"; });
  if (tokens && !required) out.push_back("RDMA tokens that are not sealed (rdma.token_provider)");
  if (names_devices(rdma.provider) && rdma.encryption == RdmaEncryption::preferred) {
    out.push_back("RDMA of native clients that do not ask for encryption");
  }
  if (names_devices(rdma.provider) && rdma.encryption == RdmaEncryption::off) out.push_back("RDMA of native clients");
  if (names(rdma.provider, "tcp") && !rdma.tcp_encryption) out.push_back("the native door's tcp (rdma.tcp_encryption)");
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

Findings check_sealing(const Config::Rdma& rdma) {
  if (!rdma.enabled) return {};
  Findings out{{Health::ok, "rdma.encryption", std::string(meaning_of(rdma.encryption)), {}}};
  Finding plain{Health::ok, "payload in the clear", {}, {}};
  for (const std::string_view what : left_plain(rdma))
    plain.found += (plain.found.empty() ? "" : "; ") + std::string(what);
  if (plain.found.empty()) {
    plain.found = "none leaves the host by RDMA or the native door";
  } else {
    plain.mend = "for networks that are not trusted: rdma.encryption: required";
    if (!rdma.tcp_encryption) plain.mend += ", and rdma.tcp_encryption: on";
  }
  // Encryption is asked for here, and not there.
  if (rdma.encryption != RdmaEncryption::off && names(rdma.provider, "tcp") && !rdma.tcp_encryption) {
    plain.health = Health::warn;
  }
  out.push_back(std::move(plain));
  if (rdma.encryption != RdmaEncryption::off && !EphemeralKey::available()) {
    out.push_back(
        {Health::warn, "forward secrecy",
         "this machine's OpenSSL has no X25519: sealed sessions have none, and where encryption is required no "
         "RDMA is served",
         "allow X25519 in OpenSSL's configuration, or serve such clients by tcp or https"});
  }
  return out;
}

}  // namespace verbena::admin
