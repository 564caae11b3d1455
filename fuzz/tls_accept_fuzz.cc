// TLS as the server accepts it, of a hostile client. The first byte selects: arbitrary bytes from the first record on;
// or the flights of a real client, with edits from the input (a byte changed, bytes inserted or removed, the end cut
// off, a flight repeated), TLS 1.2 or 1.3, with a certificate or without. The server never sends application data that
// it was not given, and what it hears of a client that it has accepted is what the client said.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <fuzzer/FuzzedDataProvider.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "http/tls.h"

namespace {

using namespace verbena;

void expect(bool holds) {
  if (!holds) std::abort();
}

template <auto free>
struct Freed {
  void operator()(auto* p) const { free(p); }
};

// Random numbers from a seed: an input repeats.
uint64_t random_state = 1;
int fill_from_seed(unsigned char* into, int size) {
  for (int i = 0; i < size; ++i) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    into[i] = static_cast<unsigned char>(random_state >> 33);
  }
  return 1;
}
int is_ready() { return 1; }

struct World {
  std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> key{EVP_EC_gen("P-256")};
  std::unique_ptr<X509, Freed<X509_free>> certificate{X509_new()};
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> client{SSL_CTX_new(TLS_client_method())};
  std::optional<boost::asio::ssl::context> plain, asking;

  World() {
    static constexpr RAND_METHOD seeded = {nullptr, fill_from_seed, nullptr, nullptr, fill_from_seed, is_ready};
    X509* const x509 = certificate.get();
    X509_set_version(x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -60);
    X509_gmtime_adj(X509_getm_notAfter(x509), 1'000'000);
    X509_set_pubkey(x509, key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(x509, X509_get_subject_name(x509));
    X509_sign(x509, key.get(), EVP_sha256());
    char directory[] = "/tmp/verbena-fuzz-tls-XXXXXX";
    expect(::mkdtemp(directory) != nullptr);
    const std::string base = directory;
    std::FILE* file = std::fopen((base + "/cert.pem").c_str(), "w");
    PEM_write_X509(file, x509);
    std::fclose(file);
    file = std::fopen((base + "/key.pem").c_str(), "w");
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    for (const bool ask : {false, true}) {
      auto made = http::make_tls_context({base + "/cert.pem", base + "/key.pem", ask});
      expect(made.has_value());
      (ask ? asking : plain).emplace(std::move(*made));
    }
    std::filesystem::remove_all(base);
    RAND_set_rand_method(&seeded);
  }
};

World& world() {
  static World& one = *new World;
  return one;
}

class End {
 public:
  End(SSL_CTX* context, bool accepts) : ssl_(SSL_new(context)) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    accepts ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }
  SSL* get() const { return ssl_.get(); }
  void hear(std::string_view bytes) {
    if (!bytes.empty()) BIO_write(SSL_get_rbio(get()), bytes.data(), static_cast<int>(bytes.size()));
  }
  std::string said() const {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(get()), &bytes);
    std::string out(bytes, static_cast<size_t>(std::max(size, 0L)));
    (void)BIO_reset(SSL_get_wbio(get()));
    return out;
  }
  bool done() const { return SSL_is_init_finished(get()) == 1; }

 private:
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
};

struct Server : End {
  explicit Server(bool ask) : End((ask ? world().asking : world().plain)->native_handle(), true) {
    http::watch_records(get(), records);
  }
  // Goes on as a connection does: the handshake, then reads until there is nothing.
  std::string turn() {
    std::string heard;
    char bytes[4096];
    for (int n; (n = SSL_read(get(), bytes, sizeof bytes)) > 0;) {
      heard.append(bytes, static_cast<size_t>(n));
      records.count = 0;
    }
    expect(records.count <= http::TlsRecords::most + 1);
    (void)http::peer_certificates_of(get());
    return heard;
  }
  http::TlsRecords records;
};

void fuzz_bytes(FuzzedDataProvider& input) {
  Server server(input.ConsumeBool());
  const size_t step = input.ConsumeIntegralInRange<size_t>(1, 600);
  while (input.remaining_bytes() > 0) {
    server.hear(input.ConsumeBytesAsString(step));
    expect(server.turn().empty());  // nothing is accepted before a Finished, which cannot be guessed
  }
  (void)server.said();
}

std::string edited(std::string flight, FuzzedDataProvider& input) {
  while (input.remaining_bytes() > 0 && input.ConsumeBool() && !flight.empty()) {
    const size_t at = input.ConsumeIntegral<uint16_t>() % flight.size();
    switch (input.ConsumeIntegralInRange(0, 4)) {
      case 0:
        flight[at] = static_cast<char>(input.ConsumeIntegral<uint8_t>());
        break;
      case 1:
        flight.insert(at, input.ConsumeRandomLengthString(40));
        break;
      case 2:
        flight.erase(at, input.ConsumeIntegral<uint8_t>());
        break;
      case 3:
        flight.resize(at);
        break;
      default:  // not without end: it doubles
        if (flight.size() < 20'000) flight += flight.substr(at);
    }
  }
  return flight;
}

void fuzz_client(FuzzedDataProvider& input) {
  Server server(input.ConsumeBool());
  End client(world().client.get(), false);
  SSL* const ssl = client.get();
  SSL_set_max_proto_version(ssl, input.ConsumeBool() ? TLS1_3_VERSION : TLS1_2_VERSION);
  std::string protocols;  // names after their lengths
  for (int i = input.ConsumeIntegralInRange(0, 3); i > 0; --i) {
    const auto name = input.ConsumeBool() ? std::string("http/1.1") : input.ConsumeRandomLengthString(12);
    protocols += static_cast<char>(name.size());
    protocols += name;
  }
  if (!protocols.empty()) {
    SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size()));
  }
  if (input.ConsumeBool()) {
    SSL_use_certificate(ssl, world().certificate.get());
    SSL_use_PrivateKey(ssl, world().key.get());
  }
  bool changed = false;
  for (int round = 0; round < 6; ++round) {
    (void)SSL_do_handshake(ssl);
    if (client.done() && round >= 2) {
      if (input.ConsumeBool()) (void)SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
      (void)SSL_write(ssl, "hello", 5);
    }
    const std::string flight = client.said();
    const std::string sent = edited(flight, input);
    changed = changed || sent != flight;
    server.hear(sent);
    const std::string heard = server.turn();
    // Records that were changed on the way are not accepted; what is accepted was said.
    for (size_t i = 0; i < heard.size(); i += 5) expect(heard.compare(i, 5, "hello") == 0);
    client.hear(server.said());
  }
  if (!changed && protocols.empty()) expect(server.done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  (void)world();
  random_state = 1;
  FuzzedDataProvider input(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    fuzz_bytes(input);
  } else {
    fuzz_client(input);
  }
  return 0;
}
