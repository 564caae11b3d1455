// Client certificates signed by an authority of the server's owner. TLS has verified that the client has the
// certificate's key; everything else is checked here, at sign-in.
#pragma once

#include <openssl/x509.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "sign_in/claims.h"

namespace verbena::sign_in {

struct Machine {
  std::string name;                    // the subject's common name
  std::vector<std::string> dns, uris;  // of its alternative names
  std::string serial;                  // hexadecimal
  std::string issuer;                  // its name, in RFC 2253 form
  std::string sha256;                  // of the certificate, hexadecimal
  std::string anchor;                  // of the certificate in ca_file that ends its chain, likewise
  int64_t expires_s = 0;               // the earliest expiry in its chain
};

class ClientAuthority {
 public:
  // The error names the key.
  static std::expected<std::unique_ptr<ClientAuthority>, std::string> open(const Config::SignIn::Certificates& config);

  // `chain`: DER, the client's own first. Takes a millisecond; reads the files again when they have changed.
  std::expected<Machine, Refusal> check(std::span<const std::string> chain, int64_t now_s);

  // Reports the certificates in ca_file (SHA-256, hexadecimal): calls `tell` now, and again after a change, within a
  // second and before check() accepts clients by them. None if the file cannot be read. Called once.
  using Anchors = std::set<std::string>;
  void watch(std::function<void(const Anchors&)> tell);

  const std::string& name() const { return config_.name; }

 private:
  explicit ClientAuthority(Config::SignIn::Certificates config)
      : config_(std::move(config)), loaded_at_(stamp()), loaded_(load()) {}
  struct FreeStore {
    void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  };
  using Store = std::shared_ptr<X509_STORE>;
  using Stamp = std::array<int64_t, 8>;  // identifies the versions of both files
  struct Loaded {
    Store store;  // null: the files are unusable
    Anchors anchors{};
    std::string fault{};  // the reason then
  };
  Stamp stamp() const;
  Loaded load() const;
  Store store();

  const Config::SignIn::Certificates config_;
  std::mutex mutex_;
  Stamp loaded_at_{};
  Loaded loaded_;
  std::function<void(const Anchors&)> tell_;
  std::jthread watcher_;  // ends first
};

}  // namespace verbena::sign_in
