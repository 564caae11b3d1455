// Machines that show a certificate of an authority of the server's owner. TLS has made sure that who shows it has its
// key; everything else is looked at here, when somebody signs in by it.
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
  std::string issuer;                  // its name, as RFC 2253 writes it
  std::string sha256;                  // of the certificate, hexadecimal
  std::string anchor;                  // the one of ca_file that it goes back to, likewise
  int64_t expires_s = 0;               // the first of the certificates that it goes back to
};

class ClientAuthority {
 public:
  // The error names the key.
  static std::expected<std::unique_ptr<ClientAuthority>, std::string> open(const Config::SignIn::Certificates& config);

  // `chain`: DER, the machine's own first. Takes a millisecond; reads the files again when they are others.
  std::expected<Machine, Refusal> check(std::span<const std::string> chain, int64_t now_s);

  // What ca_file has (SHA-256, hexadecimal): `tell` is told now, and again when it has others, from then on within a
  // second and before check() lets anybody in by them. Of a file that cannot be read there are none. Once.
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
  using Stamp = std::array<int64_t, 8>;  // what tells that a file is another one, of both
  struct Loaded {
    Store store;  // null: the files cannot be used
    Anchors anchors{};
    std::string fault{};  // then
  };
  Stamp stamp() const;
  Loaded load() const;
  Store store();

  const Config::SignIn::Certificates config_;
  std::mutex mutex_;
  Stamp loaded_at_{};
  Loaded loaded_;
  std::function<void(const Anchors&)> tell_;
  std::jthread watcher_;  // goes first
};

}  // namespace verbena::sign_in
