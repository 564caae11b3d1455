// tests/sealed/vectors.json, which an independent implementation wrote: the same bytes come out here, and go back.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fabric/sealed/cipher.h"
#include "fabric/sealed/frames.h"
#include "fabric/sealed/transfer.h"

namespace verbena::fabric::sealed {
namespace {

std::vector<std::byte> bytes_of(const nlohmann::json& vector, const char* name) {
  return *from_hex(vector[name].get_ref<const std::string&>());
}

TEST(SealedVectors, AreWhatThisCodeSealsAndOpens) {
  std::ifstream file(VERBENA_SOURCE_DIR "/tests/sealed/vectors.json");
  const auto vectors = nlohmann::json::parse(file);
  ASSERT_EQ(vectors.size(), 25u);
  for (const auto& vector : vectors) {
    if (vector["what"] != "message" && vector["what"] != "record") continue;  // sessions: native/wire
    ConnectionKey key;
    std::ranges::copy(bytes_of(vector, "connection_key"), key.bytes.begin());
    key.sealing = vector["cipher"] == "aes-256-gcm" ? Sealing::aes_256_gcm : Sealing::chacha20_poly1305;
    Salt salt;
    std::ranges::copy(bytes_of(vector, "salt"), salt.begin());
    const bool up = vector["direction"] == "to server", is_message = vector["what"] == "message";
    Ciphers sender = derive(key, salt, up ? Side::client : Side::server);
    Ciphers receiver = derive(key, salt, up ? Side::server : Side::client);
    const uint64_t number = vector["number"];
    const auto plain = bytes_of(vector, "plain"), sealed = bytes_of(vector, "sealed");

    std::vector<std::byte> context;
    if (is_message) {
      const auto kind = vector["kind"] == "open" ? Kind::open : Kind::message;
      context.resize(Header::size);
      encode(Header{.kind = kind, .session = vector["session"], .sequence = number}, context.data());
      if (kind == Kind::open) context.insert(context.end(), salt.begin(), salt.end());
    } else {
      const Place place{vector["window"], vector["offset"], static_cast<uint32_t>(plain.size())};
      const auto bound = context_of(place);
      context.assign(bound.begin(), bound.end());
    }
    std::vector<std::byte> out(plain.size());
    AeadTag tag;
    (is_message ? sender.messages_out : sender.records_out).seal(number, context, plain, out.data(), tag);
    std::vector<std::byte> made = is_message ? context : std::vector<std::byte>();
    made.insert(made.end(), out.begin(), out.end());
    made.insert(made.end(), tag.begin(), tag.end());
    EXPECT_EQ(to_hex(made), to_hex(sealed));
    Cipher& opens = is_message ? receiver.messages_in : receiver.records_in;
    ASSERT_TRUE(opens.open(number, context, out, tag, out.data()));
    EXPECT_TRUE(out == plain);
  }
}

TEST(SealedVectors, OfTransfersAreWhatThisCodeSealsAndOpens) {
  std::ifstream file(VERBENA_SOURCE_DIR "/tests/sealed/vectors.json");
  const auto vectors = nlohmann::json::parse(file);
  size_t seen = 0;
  for (const auto& vector : vectors) {
    if (vector["what"] != "transfer") continue;
    ++seen;
    ConnectionKey key;
    std::ranges::copy(bytes_of(vector, "connection_key"), key.bytes.begin());
    key.sealing = vector["cipher"] == "aes-256-gcm" ? Sealing::aes_256_gcm : Sealing::chacha20_poly1305;
    Salt salt;
    std::ranges::copy(bytes_of(vector, "salt"), salt.begin());
    const auto direction = vector["direction"] == "to server" ? Direction::to_server : Direction::to_client;
    const WindowDescriptor window{.base = vector["offset"], .size = 0, .key = vector["window"]};
    const size_t size = vector["size"];
    const auto repeats = bytes_of(vector, "plain");
    std::vector<std::byte> plain(size);
    for (size_t i = 0; i < size; ++i) plain[i] = repeats[i % repeats.size()];

    std::vector<std::byte> made(size + trailer_size(size));
    const MutableBytes tags = MutableBytes(made).subspan(size);
    Transfer sends(key, salt, direction, window, size);
    sends.keep_tags_in(tags);
    sends.seal(plain, made.data());
    EXPECT_EQ(to_hex(sha256_of(made)), vector["sealed_sha256"].get<std::string>()) << size;
    Transfer opens(key, salt, direction, window, size);
    opens.keep_tags_in(tags);
    for (size_t i = 0, at = 0; i < opens.records(); at += opens.size_of(i++)) {
      ASSERT_TRUE(opens.open(i, Bytes(made).subspan(at, opens.size_of(i)), made.data() + at));
    }
    made.resize(size);
    EXPECT_TRUE(made == plain);
  }
  EXPECT_EQ(seen, 6u);
}

TEST(SealedCipher, AKeyFromBeforeTheLastRenewalButOneOpensNothing) {
  ConnectionKey key;
  key.sealing = Sealing::aes_256_gcm;
  Ciphers sender = derive(key, {}, Side::server, 2), receiver = derive(key, {}, Side::client, 2);
  std::vector<std::pair<std::array<std::byte, 1>, AeadTag>> all(16);
  const std::array<std::byte, 1> plain{std::byte{7}};
  for (uint64_t number = 0; number < all.size(); ++number) {
    sender.records_out.seal(number, {}, plain, all[number].first.data(), all[number].second);
  }
  const auto opens = [&](uint64_t number) {
    std::array<std::byte, 1> out;
    return receiver.records_in.open(number, {}, all[number].first, all[number].second, out.data()) && out == plain;
  };
  EXPECT_TRUE(opens(0));
  EXPECT_TRUE(opens(5));
  EXPECT_TRUE(opens(1)) << "of the epoch before";
  EXPECT_TRUE(opens(8));
  EXPECT_TRUE(opens(6));
  EXPECT_FALSE(opens(2)) << "of the one before that";
  EXPECT_FALSE(receiver.records_in.open(15, {}, all[3].first, all[3].second, std::array<std::byte, 1>().data()));
  EXPECT_TRUE(opens(9)) << "a forged number renews no key";
}

}  // namespace
}  // namespace verbena::fabric::sealed
