#include "sign_in/client_authority.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <ctime>

#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "sign_in/session_name.h"

namespace verbena::sign_in {
namespace {

using Why = Refusal::Kind;

constexpr int authorities_between_max = 4, bits_of_security_min_level = 2;
constexpr size_t alternative_names_max = 64, alternative_bytes_max = 512, issuer_bytes_max = 1024;
constexpr std::chrono::seconds look_at_files_every{1};

struct FreeX509 {
  void operator()(X509* one) const { X509_free(one); }
  void operator()(STACK_OF(X509) * all) const { sk_X509_pop_free(all, X509_free); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
  void operator()(BIO* text) const { BIO_free(text); }
};
using Certificate = std::unique_ptr<X509, FreeX509>;
using Certificates = std::unique_ptr<STACK_OF(X509), FreeX509>;

std::unexpected<Refusal> refuse(std::string why) { return std::unexpected(Refusal{Why::denied, std::move(why)}); }

Certificate read_der(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  Certificate made(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  return at == reinterpret_cast<const unsigned char*>(der.data() + der.size()) ? std::move(made) : nullptr;
}

int64_t end_of(const X509* certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return 0;
  return ::timegm(&end);
}

// Empty: none, more than one, or not a valid name.
std::string common_name(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return {};
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  std::string name(reinterpret_cast<char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return can_name_a_session(name) ? name : std::string();
}

// False: one of them is not a text, or there are too many.
bool read_alternatives(const X509* certificate, Machine& into) {
  const std::unique_ptr<GENERAL_NAMES, FreeX509> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) return X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) < 0;
  if (static_cast<size_t>(sk_GENERAL_NAME_num(names.get())) > alternative_names_max) return false;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const auto* const value =
        static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type));
    if (type != GEN_DNS && type != GEN_URI) continue;
    const std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                           static_cast<size_t>(ASN1_STRING_length(value)));
    const auto visible = [](char c) { return c > 0x20 && c < 0x7f; };
    if (text.empty() || text.size() > alternative_bytes_max || !std::ranges::all_of(text, visible)) return false;
    (type == GEN_DNS ? into.dns : into.uris).push_back(text);
  }
  return true;
}

std::string serial_of(const X509* certificate) {
  BIGNUM* const number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* const text = number == nullptr ? nullptr : BN_bn2hex(number);
  std::string out = text == nullptr ? "" : lower(text);
  OPENSSL_free(text);
  BN_free(number);
  return out;
}

std::string sha256_of(const X509* certificate) {
  std::array<std::byte, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (X509_digest(certificate, EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()), &size) != 1) return {};
  return to_hex(Bytes(digest).first(size));
}

// Empty: unsuitable for policies.
std::string issuer_of(const X509* certificate) {
  const std::unique_ptr<BIO, FreeX509> text(BIO_new(BIO_s_mem()));
  if (text == nullptr || X509_NAME_print_ex(text.get(), X509_get_issuer_name(certificate), 0, XN_FLAG_RFC2253) < 0) {
    return {};
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return size <= 0 || static_cast<size_t>(size) > issuer_bytes_max ? std::string()
                                                                   : std::string(data, static_cast<size_t>(size));
}

ClientAuthority::Anchors anchors_of(X509_STORE* store) {
  ClientAuthority::Anchors out;
  const STACK_OF(X509_OBJECT)* const all = X509_STORE_get0_objects(store);
  for (int i = 0; i < sk_X509_OBJECT_num(all); ++i) {
    const X509* const one = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));
    if (one != nullptr) out.insert(sha256_of(one));
  }
  return out;
}

// A certificate in ca_file is trusted directly. Revocation is not checked for it: that list would come from an
// authority above, which has no part in this.
int leave_out_the_anchors_list(int good, X509_STORE_CTX* context) {
  if (good == 1 || X509_STORE_CTX_get_error_depth(context) + 1 != sk_X509_num(X509_STORE_CTX_get0_chain(context))) {
    return good;
  }
  switch (X509_STORE_CTX_get_error(context)) {
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_DIFFERENT_CRL_SCOPE:
    case X509_V_ERR_KEYUSAGE_NO_CRL_SIGN:
      X509_STORE_CTX_set_error(context, X509_V_OK);
      return 1;
    default:
      return 0;
  }
}

// A certificate for any purpose does not count as one for this purpose.
bool is_for_clients(X509* certificate) {
  return X509_check_ca(certificate) == 0 && (X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) != 0 &&
         (X509_get_extended_key_usage(certificate) & XKU_SSL_CLIENT) != 0;
}

std::array<int64_t, 4> stamp_of(const std::string& path) {
  struct stat is{};
  if (path.empty() || ::stat(path.c_str(), &is) != 0) return {};
  return {static_cast<int64_t>(is.st_ino), is.st_size, is.st_mtim.tv_sec, is.st_mtim.tv_nsec};
}

}  // namespace

std::expected<std::unique_ptr<ClientAuthority>, std::string> ClientAuthority::open(
    const Config::SignIn::Certificates& config) {
  auto made = std::unique_ptr<ClientAuthority>(new ClientAuthority(config));
  if (made->loaded_.store == nullptr) return std::unexpected(made->loaded_.fault);
  return made;
}

ClientAuthority::Stamp ClientAuthority::stamp() const {
  Stamp both{};
  const auto ca = stamp_of(config_.ca_file), crl = stamp_of(config_.crl_file);
  std::ranges::copy(ca, both.begin());
  std::ranges::copy(crl, both.begin() + ca.size());
  return both;
}

ClientAuthority::Loaded ClientAuthority::load() const {
  const auto fault = [](const char* key, const std::string& path, const char* what) {
    return std::string("sign_in.certificates.") + key + ": " + log::printable(path, 256) + " is not a PEM file of " +
           what;
  };
  Store made(X509_STORE_new(), FreeStore());
  X509_LOOKUP* const files = made == nullptr ? nullptr : X509_STORE_add_lookup(made.get(), X509_LOOKUP_file());
  if (files == nullptr || X509_load_cert_file(files, config_.ca_file.c_str(), X509_FILETYPE_PEM) < 1) {
    return {.store = nullptr, .fault = fault("ca_file", config_.ca_file, "certificates")};
  }
  Anchors anchors = anchors_of(made.get());
  // An intermediate authority in ca_file is trusted by itself.
  X509_STORE_set_flags(made.get(), X509_V_FLAG_PARTIAL_CHAIN);
  if (config_.crl_file.empty()) return {.store = std::move(made), .anchors = std::move(anchors)};
  if (X509_load_crl_file(files, config_.crl_file.c_str(), X509_FILETYPE_PEM) < 1) {
    return {.store = nullptr,
            .anchors = std::move(anchors),
            .fault = fault("crl_file", config_.crl_file, "lists of revoked certificates")};
  }
  X509_STORE_set_flags(made.get(), X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  X509_STORE_set_verify_cb(made.get(), leave_out_the_anchors_list);
  return {.store = std::move(made), .anchors = std::move(anchors)};
}

ClientAuthority::Store ClientAuthority::store() {
  const std::lock_guard lock(mutex_);
  const Stamp now = stamp();
  if (now == loaded_at_) return loaded_.store;
  // Unreadable files admit no client: they may list revoked ones.
  Loaded loaded = load();
  loaded_at_ = now;
  if (loaded.store == nullptr) log::warn("sign-in: {}; until it is, no machine signs in", loaded.fault);
  const bool others = loaded.anchors != loaded_.anchors;
  loaded_ = std::move(loaded);
  if (others && tell_) tell_(loaded_.anchors);
  return loaded_.store;
}

void ClientAuthority::watch(std::function<void(const Anchors&)> tell) {
  {
    const std::lock_guard lock(mutex_);
    tell_ = std::move(tell);
    tell_(loaded_.anchors);
  }
  // Existing sessions do not check files: a change is pushed to them.
  watcher_ = std::jthread([this](std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, look_at_files_every, [&] { return stop.stop_requested(); })) (void)store();
  });
}

std::expected<Machine, Refusal> ClientAuthority::check(std::span<const std::string> chain, int64_t now_s) {
  if (chain.empty()) return refuse("The connection came without a client certificate.");
  const Store trusted = store();
  if (trusted == nullptr) {
    return std::unexpected(Refusal{Why::no_answer, "Certificates cannot be checked. The server's log says why."});
  }
  const Certificate own = read_der(chain.front());
  const Certificates between(sk_X509_new_null());
  if (own == nullptr || between == nullptr) return refuse("The client certificate cannot be read.");
  for (const std::string& der : chain.subspan(1)) {
    Certificate one = read_der(der);
    if (one == nullptr || sk_X509_push(between.get(), one.get()) == 0)
      return refuse("The client certificate cannot be read.");
    (void)one.release();
  }
  const std::unique_ptr<X509_STORE_CTX, FreeX509> context(X509_STORE_CTX_new());
  if (context == nullptr || X509_STORE_CTX_init(context.get(), trusted.get(), own.get(), between.get()) != 1) {
    return refuse("The client certificate cannot be checked.");
  }
  X509_VERIFY_PARAM* const wanted = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_purpose(wanted, X509_PURPOSE_SSL_CLIENT);
  X509_VERIFY_PARAM_set_depth(wanted, authorities_between_max);
  X509_VERIFY_PARAM_set_auth_level(wanted, bits_of_security_min_level);
  X509_VERIFY_PARAM_set_time(wanted, now_s);
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    return refuse(std::string("The client certificate is not trusted: ") + X509_verify_cert_error_string(error) + ".");
  }
  if (!is_for_clients(own.get()))
    return refuse("The client certificate is not for clients (extendedKeyUsage clientAuth).");
  Machine machine;
  machine.name = common_name(own.get());
  if (machine.name.empty()) {
    return refuse(
        "The client certificate's subject needs one common name, of at most 64 characters [A-Za-z0-9_+=,.@-].");
  }
  if (!read_alternatives(own.get(), machine))
    return refuse("The client certificate's alternative names cannot be read.");
  machine.serial = serial_of(own.get());
  machine.issuer = issuer_of(own.get());
  machine.sha256 = sha256_of(own.get());
  machine.expires_s = end_of(own.get());
  const STACK_OF(X509)* const verified = X509_STORE_CTX_get0_chain(context.get());
  const int verified_size = sk_X509_num(verified);
  // A certificate that is in ca_file itself authenticates others, not itself.
  if (verified_size < 2) return refuse("The client certificate is not trusted: no authority has signed it.");
  machine.anchor = sha256_of(sk_X509_value(verified, verified_size - 1));
  for (int i = 0; i < verified_size; ++i) {
    machine.expires_s = std::min(machine.expires_s, end_of(sk_X509_value(verified, i)));
  }
  if (machine.expires_s <= now_s) return refuse("The client certificate has expired.");
  return machine;
}

}  // namespace verbena::sign_in
