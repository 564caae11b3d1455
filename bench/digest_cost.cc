// Does one piece of work on the processor, NAME over BYTES bytes, and ends: for counts of instructions, also by an
// emulator (tests/package/emulated_test.py). The bytes of two runs differ by known work alone, so the difference of
// their counts is its cost.
//
// usage: digest_cost NAME BYTES   (without arguments: the names)
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/aead.h"
#include "base/checksum.h"
#include "base/md5.h"
#include "base/running_sha256.h"

namespace verbena {
namespace {

using Work = std::function<void(std::span<std::byte>)>;

void digest(Algorithm algorithm, Bytes bytes) {
  Digest running(algorithm);
  running.update(bytes);
  running.finish();
}

void md5_of_four(Bytes bytes) {
  std::array<Md5, 4> bodies;
  const size_t each = bytes.size() / bodies.size();
  std::vector<Md5::More> more;
  for (size_t i = 0; i < bodies.size(); ++i) more.push_back({&bodies[i], bytes.subspan(i * each, each)});
  Md5::update_all(more);
  for (auto& body : bodies) body.finish();
}

void both(Bytes bytes) {
  RunningSha256 sha256;
  Md5 md5;
  sha256.update_with(md5, bytes);
  sha256.finish();
  md5.finish();
}

void seal(AeadKind kind, std::span<std::byte> bytes) {
  const std::array<std::byte, aead_key_size> key{};
  Aead aead(key, kind);
  AeadTag tag;
  aead.seal(AeadNonce{}, {}, bytes, bytes.data(), tag);
}

const std::map<std::string_view, Work> works = {
    {"crc32", [](auto bytes) { crc32(bytes); }},
    {"crc32c", [](auto bytes) { crc32c(bytes); }},
    {"crc64nvme", [](auto bytes) { crc64_nvme(bytes); }},
    {"md5", [](auto bytes) { digest(Algorithm::md5, bytes); }},
    {"md5-of-4-bodies", md5_of_four},
    {"sha1", [](auto bytes) { digest(Algorithm::sha1, bytes); }},
    {"sha256", [](auto bytes) { digest(Algorithm::sha256, bytes); }},
    {"sha256-and-md5", both},
    {"xxhash3", [](auto bytes) { digest(Algorithm::xxhash3, bytes); }},
    {"aes-256-gcm", [](auto bytes) { seal(AeadKind::aes_256_gcm, bytes); }},
    {"chacha20-poly1305", [](auto bytes) { seal(AeadKind::chacha20_poly1305, bytes); }},
};

int run(std::span<char*> arguments) {
  if (arguments.size() == 1) {
    for (const auto& [name, work] : works) std::printf("%s\n", std::string(name).c_str());
    return 0;
  }
  size_t size = 0;
  const std::string_view wanted = arguments.size() == 3 ? arguments[2] : "";
  const auto parsed = std::from_chars(wanted.data(), wanted.data() + wanted.size(), size);
  const auto work = works.find(arguments[1]);
  constexpr size_t size_max = size_t{1} << 30;
  if (work == works.end() || wanted.empty() || parsed.ec != std::errc() || *parsed.ptr != '\0' || size > size_max) {
    std::fputs("usage: digest_cost [NAME BYTES]\n", stderr);
    return 2;
  }
  // Of a fixed size, so that making the bytes costs each run the same.
  std::vector<std::byte> bytes(size_t{1} << 20);
  if (size > bytes.size()) bytes.resize(size);
  work->second(std::span(bytes).first(size));
  return 0;
}

}  // namespace
}  // namespace verbena

int main(int count, char** arguments) { return verbena::run(std::span(arguments, static_cast<size_t>(count))); }
