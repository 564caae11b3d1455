// Certificates of clients, as they come out of TLS. The input describes one: its names, times, uses, its signer, and
// edits of its DER afterwards. It is signed for real, so that what comes behind the signature's check is reached. Only
// one that the authority has signed, for a client, in its time and unedited is accepted, and with a name that fits into
// policies.
#include <fuzzer/FuzzedDataProvider.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sign_in/client_authority.h"

namespace {

using namespace verbena;
using namespace verbena::sign_in;

constexpr int64_t now_s = 1'767'323'045;

void expect(bool holds) {
  if (!holds) std::abort();
}

template <auto free>
struct Freed {
  void operator()(auto* p) const { free(p); }
};
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

void name(X509_NAME* into, int nid, int type, std::string_view text) {
  X509_NAME_add_entry_by_NID(into, nid, type, reinterpret_cast<const unsigned char*>(text.data()),
                             static_cast<int>(text.size()), -1, 0);
}

void extend(X509* certificate, int nid, const char* value) {
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> made(
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value));
  if (made) X509_add_ext(certificate, made.get(), -1);
}
void extend_raw(X509* certificate, int nid, std::string_view der, bool critical) {
  const std::unique_ptr<ASN1_OCTET_STRING, Freed<ASN1_OCTET_STRING_free>> bytes(ASN1_OCTET_STRING_new());
  ASN1_OCTET_STRING_set(bytes.get(), reinterpret_cast<const unsigned char*>(der.data()), static_cast<int>(der.size()));
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> made(
      X509_EXTENSION_create_by_NID(nullptr, nid, critical ? 1 : 0, bytes.get()));
  if (made) X509_add_ext(certificate, made.get(), -1);
}

Certificate bare(EVP_PKEY* key, int64_t from_s, int64_t to_s) {
  Certificate out(X509_new());
  X509_set_version(out.get(), X509_VERSION_3);
  ASN1_TIME_set(X509_getm_notBefore(out.get()), from_s);
  ASN1_TIME_set(X509_getm_notAfter(out.get()), to_s);
  X509_set_pubkey(out.get(), key);
  return out;
}

std::string der_of(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  std::string out(reinterpret_cast<char*>(der), static_cast<size_t>(std::max(size, 0)));
  OPENSSL_free(der);
  return out;
}

struct World {
  Key authority_key{EVP_EC_gen("P-256")}, client_key{EVP_EC_gen("P-256")}, other_key{EVP_EC_gen("P-256")};
  Certificate authority = bare(authority_key.get(), now_s - 1000, now_s + 100'000'000);
  std::unique_ptr<ClientAuthority> check;

  World() {
    name(X509_get_subject_name(authority.get()), NID_commonName, MBSTRING_UTF8, "authority");
    X509_set_issuer_name(authority.get(), X509_get_subject_name(authority.get()));
    ASN1_INTEGER_set(X509_get_serialNumber(authority.get()), 1);
    extend(authority.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(authority.get(), authority_key.get(), EVP_sha256());
    // Kept: it is looked at before each check.
    char path[] = "/tmp/verbena-fuzz-ca-XXXXXX";
    std::FILE* const file = ::fdopen(::mkstemp(path), "w");
    PEM_write_X509(file, authority.get());
    std::fclose(file);
    Config::SignIn::Certificates config;
    config.ca_file = path;
    auto opened = ClientAuthority::open(config);
    expect(opened.has_value());
    check = std::move(*opened);
    remove_at_exit = path;
  }
  ~World() { std::filesystem::remove(remove_at_exit); }
  std::string remove_at_exit;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World world;
  FuzzedDataProvider input(data, size);
  const int64_t from_s = now_s - input.ConsumeIntegralInRange<int64_t>(-100, 1'000'000);
  const int64_t to_s = now_s + input.ConsumeIntegralInRange<int64_t>(-100, 1'000'000);
  const Certificate made = bare(world.client_key.get(), from_s, to_s);
  X509* const x509 = made.get();
  const auto serial = input.ConsumeRandomLengthString(24);
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()), static_cast<int>(serial.size()), nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x509));
  // Most have a usual name, so that what follows is reached.
  if (input.ConsumeIntegralInRange(0, 9) > 0) {
    name(X509_get_subject_name(x509), NID_commonName, MBSTRING_UTF8, input.ConsumeBool() ? "machine-1" : "a@b.c");
  }
  for (int i = input.ConsumeIntegralInRange(0, 3); i > 0; --i) {
    constexpr int types[] = {MBSTRING_UTF8,    MBSTRING_ASC,     V_ASN1_UTF8STRING,
                             V_ASN1_BMPSTRING, V_ASN1_T61STRING, V_ASN1_PRINTABLESTRING};
    const int nid = input.ConsumeIntegralInRange(0, 9) == 9 ? NID_commonName : NID_organizationName;
    const int type = types[input.ConsumeIntegralInRange<size_t>(0, std::size(types) - 1)];
    name(X509_get_subject_name(x509), nid, type, input.ConsumeRandomLengthString(80));
  }
  X509_set_issuer_name(x509, X509_get_subject_name(world.authority.get()));
  if (input.ConsumeIntegralInRange(0, 9) > 0) extend(x509, NID_ext_key_usage, "clientAuth");
  if (input.ConsumeIntegralInRange(0, 9) == 9) {
    extend_raw(x509, NID_subject_alt_name, input.ConsumeRandomLengthString(200), false);
  }
  if (input.ConsumeBool()) {
    const auto names = "DNS:h" + input.ConsumeRandomLengthString(40) + ",URI:u:" + input.ConsumeRandomLengthString(40);
    if (names.find('\0') == std::string::npos) extend(x509, NID_subject_alt_name, names.c_str());
  }
  if (input.ConsumeIntegralInRange(0, 9) == 9) extend(x509, NID_basic_constraints, "CA:TRUE");
  if (input.ConsumeIntegralInRange(0, 9) == 9) {
    constexpr int kinds[] = {NID_key_usage, NID_name_constraints, NID_basic_constraints, NID_ext_key_usage};
    extend_raw(x509, kinds[input.ConsumeIntegralInRange<size_t>(0, 3)], input.ConsumeRandomLengthString(40),
               input.ConsumeBool());
  }
  const bool ours = input.ConsumeIntegralInRange(0, 9) < 9;
  X509_sign(x509, ours ? world.authority_key.get() : world.other_key.get(), EVP_sha256());
  const std::string signed_der = der_of(x509);
  std::string der = signed_der;
  while (input.remaining_bytes() >= 3 && !der.empty()) {
    der[input.ConsumeIntegral<uint16_t>() % der.size()] ^= static_cast<char>(input.ConsumeIntegral<uint8_t>());
  }
  std::vector<std::string> chain = {der};
  if (size % 7 == 0) chain.push_back(der_of(world.authority.get()));
  const auto machine = world.check->check(chain, now_s);
  if (!machine) {
    expect(!machine.error().message.empty());
    return 0;
  }
  expect(ours && der == signed_der && from_s <= now_s && now_s < to_s);
  expect(!machine->name.empty() && machine->name.size() <= 64 && machine->expires_s == to_s);
  for (const auto& text : machine->dns) expect(!text.empty());
  return 0;
}
