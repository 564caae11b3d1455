// Rules for the clients of some networks (`listeners:`): which accounts they may use, and whether their bytes have to
// be encrypted. Every door asks here, with the address of the client's connection; headers that name another address
// are not believed.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/ip_range.h"
#include "base/rdma_encryption.h"
#include "base/result.h"

namespace verbena::auth {

struct Identity;

// One entry of the list, as configured.
struct NetworkEntry {
  std::vector<std::string> networks{};                 // "10.0.0.0/8", "::1"
  std::optional<RdmaEncryption> encryption{};          // unset: as everywhere
  std::optional<std::vector<std::string>> accounts{};  // ids of 12 digits, "anonymous"; unset: every caller
};

// Immutable, so every thread may ask. The first entry that holds the address decides; what no entry holds follows the
// other keys of the configuration. An address that cannot be read is in a network where nothing is allowed.
class NetworkRules {
 public:
  // No entries.
  explicit NetworkRules(RdmaEncryption elsewhere = RdmaEncryption::preferred) : elsewhere_(elsewhere) {}
  // `elsewhere`: rdma.encryption, for what no entry holds and for entries that do not say. The error is a sentence for
  // the operator that begins with the entry ("[1].networks: ...").
  static std::expected<NetworkRules, std::string> make(const std::vector<NetworkEntry>& entries,
                                                       RdmaEncryption elsewhere);

  bool empty() const { return entries_.empty(); }
  // The number of the entry that decides about `address` (an IP, perhaps with a scope; no port). nullopt: none.
  std::optional<size_t> entry_of(std::string_view address) const;

  // What is done on RDMA devices for a client there.
  RdmaEncryption encryption(std::string_view address) const;

  // Whether a request over HTTP may be answered. access_denied: it came without TLS from where encryption is required.
  Result<void> check_transport(std::string_view address, bool secure) const;
  // Whether a caller may be served. access_denied: the entry does not name the caller's account, or not "anonymous".
  Result<void> check_caller(std::string_view address, const Identity& caller) const;

 private:
  struct Entry {
    std::vector<IpRange> networks;
    RdmaEncryption encryption = RdmaEncryption::preferred;
    bool needs_tls = false;  // the entry itself says `required`
    std::optional<std::vector<std::string>> accounts;
  };
  const Entry* holder(const IpAddress& client) const;  // the first entry that holds it; null: none does
  // Null: no entry decides.
  const Entry* find(std::string_view address) const;

  RdmaEncryption elsewhere_;
  std::vector<Entry> entries_;
};

}  // namespace verbena::auth
