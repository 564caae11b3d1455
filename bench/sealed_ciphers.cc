// The speed of the ciphers. Both sides of a comparison take turns, so that a busy machine slows both down.
#include <openssl/evp.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/copy.h"
#include "fabric/sealed/channel.h"
#include "give_up.h"
#include "sealed_bench.h"

namespace verbena::bench {
namespace {

using fabric::Sealing;
using namespace fabric::sealed;

// Both ends of a sealed connection.
class Ours {
 public:
  explicit Ours(Sealing sealing) {
    fabric::ConnectionKey key;
    key.sealing = sealing;
    server_.emplace(1, derive(key, {}, Side::server), std::nullopt, 16 * KiB);
    client_.emplace(1, derive(key, {}, Side::client), Salt{}, 16 * KiB);
  }
  // 256 KiB at a time, in records of 64 KiB. A GET: the server seals into memory of its own, which its device writes
  // into the client's ring, and the client opens the ring into the window.
  void get(Bytes plain, MutableBytes ring, MutableBytes into) {
    for (size_t at = 0; at < plain.size(); at += segment_size) {
      const Place place = place_of(plain, at);
      const Bytes part = plain.subspan(at, place.length);
      const Seals seals = *server_->seal_records(place, part, ring.data() + at);
      const Bytes sealed = Bytes(ring).subspan(at, place.length);
      const bool opened = client_->open_shared(place, seals, sealed, [&](const Place& record, Bytes bytes) {
        copy_bytes(into.data() + record.offset, bytes);
      });
      if (!opened) give_up("a record does not open");
    }
  }
  // A PUT: the client seals into its ring, the server's device reads that into memory of the server, which opens it
  // there.
  void put(Bytes plain, MutableBytes into) {
    for (size_t at = 0; at < plain.size(); at += segment_size) {
      const Place place = place_of(plain, at);
      const MutableBytes sealed = into.subspan(at, place.length);
      const Seals seals = *client_->seal_records(place, plain.subspan(at, place.length), sealed.data());
      if (!server_->open_records(place, seals, sealed, sealed.data())) give_up("a record does not open");
    }
  }

 private:
  static Place place_of(Bytes plain, size_t at) {
    return {1, at, static_cast<uint32_t>(std::min(segment_size, plain.size() - at))};
  }
  std::optional<Channel> server_, client_;
};

// OpenSSL with a key that was scheduled before, and one call for all bytes.
class OneShot {
 public:
  explicit OneShot(Sealing sealing)
      : cipher_(
            EVP_CIPHER_fetch(nullptr, sealing == Sealing::aes_256_gcm ? "AES-256-GCM" : "ChaCha20-Poly1305", nullptr)) {
    const unsigned char key[32] = {};
    check(EVP_EncryptInit_ex2(seal_.get(), cipher_.get(), key, nullptr, nullptr));
    check(EVP_DecryptInit_ex2(open_.get(), cipher_.get(), key, nullptr, nullptr));
  }
  void turn(Bytes plain, MutableBytes buffer) {
    for (size_t i = 0; i < sizeof number_; ++i) nonce_[4 + i] = static_cast<unsigned char>(number_ >> (8 * i));
    ++number_;
    const int size = static_cast<int>(plain.size());
    auto* const out = reinterpret_cast<unsigned char*>(buffer.data());
    const auto* const in = reinterpret_cast<const unsigned char*>(plain.data());
    unsigned char tag[16];
    int n = 0;
    check(EVP_EncryptInit_ex2(seal_.get(), nullptr, nullptr, nonce_, nullptr));
    check(EVP_EncryptUpdate(seal_.get(), out, &n, in, size));
    check(EVP_EncryptFinal_ex(seal_.get(), out + n, &n));
    check(EVP_CIPHER_CTX_ctrl(seal_.get(), EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag));
    check(EVP_DecryptInit_ex2(open_.get(), nullptr, nullptr, nonce_, nullptr));
    check(EVP_DecryptUpdate(open_.get(), out, &n, out, size));
    check(EVP_CIPHER_CTX_ctrl(open_.get(), EVP_CTRL_AEAD_SET_TAG, sizeof tag, tag));
    check(EVP_DecryptFinal_ex(open_.get(), out + n, &n));
  }

 private:
  static void check(int ok) {
    if (ok != 1) give_up("OpenSSL");
  }
  struct Free {
    void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  std::unique_ptr<EVP_CIPHER, Free> cipher_;
  std::unique_ptr<EVP_CIPHER_CTX, Free> seal_{EVP_CIPHER_CTX_new()}, open_{EVP_CIPHER_CTX_new()};
  uint64_t number_ = 0;
  unsigned char nonce_[12] = {};
};

double thread_cpu_s() {
  timespec time{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) give_up("the thread's clock");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Bytes sealed and opened in a second of the processor.
double speed(size_t bytes, double seconds, const std::function<void()>& turn) {
  const double began = thread_cpu_s();
  double now = began;
  uint64_t moved = 0;
  do {
    for (size_t i = 0; i < 1 * MiB; i += bytes) turn(), moved += bytes;
    now = thread_cpu_s();
  } while (now - began < seconds);
  return static_cast<double>(moved) / (now - began);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

std::vector<CipherSpeed> measure_ciphers(double seconds_per_turn, unsigned rounds) {
  std::vector<CipherSpeed> rows;
  for (const Sealing sealing : {Sealing::aes_256_gcm, Sealing::chacha20_poly1305}) {
    Ours ours(sealing);
    OneShot openssl(sealing);
    for (const size_t bytes : {size_t{64}, 4 * KiB, 16 * KiB, 64 * KiB, 1 * MiB}) {
      std::vector<std::byte> plain(bytes), buffer(bytes), ring(bytes);
      fill_random(plain);
      std::vector<double> gets, puts, theirs, ratios_get, ratios_put;
      const auto turn_of = [&](std::vector<double>& speeds, const std::function<void()>& turn) {
        std::ranges::fill(buffer, std::byte{0});
        speeds.push_back(speed(bytes, seconds_per_turn, turn));
        if (buffer != plain) give_up("other bytes came out");
      };
      for (unsigned round = 0; round < rounds; ++round) {
        turn_of(gets, [&] { ours.get(plain, ring, buffer); });
        turn_of(theirs, [&] { openssl.turn(plain, buffer); });
        turn_of(puts, [&] { ours.put(plain, buffer); });
        ratios_get.push_back(gets.back() / theirs.back());
        ratios_put.push_back(puts.back() / theirs.back());
      }
      const char* const cipher = sealing == Sealing::aes_256_gcm ? "AES-256-GCM" : "ChaCha20-Poly1305";
      rows.push_back({cipher, "GET", bytes, median(gets), median(theirs), median(ratios_get)});
      rows.push_back({cipher, "PUT", bytes, median(puts), median(theirs), median(ratios_put)});
    }
  }
  return rows;
}

}  // namespace verbena::bench
