// Micro-benchmarks of the parts of a hot request.
#include <benchmark/benchmark.h>

#include "auth/auth.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/md5.h"
#include "base/running_sha256.h"
#include "cache/hot_tier.h"
#include "memory/arena.h"
#include "memory/budget.h"

namespace verbena {
namespace {

std::vector<std::byte> bytes_of(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31);
  return bytes;
}

void set_bytes(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * state.range(0)); }

// From a page's beginning to a given number of bytes after a page's beginning.
template <class Copy>
void copy(benchmark::State& state, Copy copy) {
  const auto size = static_cast<size_t>(state.range(0));
  std::vector<std::byte> from(size + 4096), to(size + 8192);
  const auto aligned = [](std::vector<std::byte>& bytes) {
    return bytes.data() + (4096 - reinterpret_cast<uintptr_t>(bytes.data()) % 4096) % 4096;
  };
  std::byte *const source = aligned(from), *const target = aligned(to) + state.range(1);
  for (auto _ : state) {
    copy(target, source, size);
    benchmark::ClobberMemory();
  }
  set_bytes(state);
}
BENCHMARK_CAPTURE(copy, bytes, [](std::byte* to, const std::byte* from, size_t size) {
  copy_bytes(to, from, size);
})->ArgsProduct({{4096, 64 << 10, 1 << 20}, {0, 16, 48}});
BENCHMARK_CAPTURE(copy, memcpy, [](std::byte* to, const std::byte* from, size_t size) {
  std::memcpy(to, from, size);
})->ArgsProduct({{4096, 64 << 10, 1 << 20}, {0, 16, 48}});

// Copies 1 MiB after the other, over a region of the argument's size.
template <class Copy>
void copy_around(benchmark::State& state, Copy copy) {
  const auto all = static_cast<size_t>(state.range(0)), piece = size_t{1} << 20;
  std::vector<std::byte> from = bytes_of(all), to(all);
  size_t at = 0;
  for (auto _ : state) {
    copy(to.data() + at, from.data() + at, piece);
    benchmark::ClobberMemory();
    at = (at + piece) % all;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(piece));
}
BENCHMARK_CAPTURE(copy_around, memcpy,
                  [](std::byte* to, const std::byte* from, size_t size) { std::memcpy(to, from, size); })
    ->RangeMultiplier(2)
    ->Range(1 << 20, 128 << 20);
template <CopyOrder order>
void past_caches(std::byte* to, const std::byte* from, size_t size) {
  copy_past_caches_in(to, from, size, order);
}
BENCHMARK_CAPTURE(copy_around, past_caches_by_lines, past_caches<CopyOrder::lines>)
    ->RangeMultiplier(2)
    ->Range(1 << 20, 128 << 20);
BENCHMARK_CAPTURE(copy_around, past_caches_pages_in_parallel, past_caches<CopyOrder::pages_in_parallel>)
    ->RangeMultiplier(2)
    ->Range(1 << 20, 128 << 20);

void message_mac(benchmark::State& state) {
  const auto bytes = bytes_of(static_cast<size_t>(state.range(0)));
  const std::byte key[16]{};
  for (auto _ : state) benchmark::DoNotOptimize(siphash24(key, bytes));
  set_bytes(state);
}
BENCHMARK(message_mac)->Arg(64)->Arg(160)->Arg(4096);

void digest(benchmark::State& state, Algorithm algorithm) {
  const auto bytes = bytes_of(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    Digest running(algorithm);
    running.update(bytes);
    benchmark::DoNotOptimize(running.finish());
  }
  set_bytes(state);
}
BENCHMARK_CAPTURE(digest, crc32c, Algorithm::crc32c)->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(digest, crc64nvme, Algorithm::crc64nvme)->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(digest, sha256, Algorithm::sha256)->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(digest, md5, Algorithm::md5)->Arg(4096)->Arg(1 << 20);

// Pieces of 256 KiB of that many bodies, as they wait for a helper.
void md5_side_by_side(benchmark::State& state) {
  const auto bytes = bytes_of(256 << 10);
  std::vector<Md5> digests(static_cast<size_t>(state.range(0)));
  std::vector<Md5::More> list;
  for (Md5& digest : digests) list.push_back({&digest, bytes});
  for (auto _ : state) Md5::update_all(list);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size() * digests.size()));
}
BENCHMARK(md5_side_by_side)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(16);

// What a PUT with a signed payload needs.
void sha256_and_md5(benchmark::State& state, bool one_pass) {
  const auto bytes = bytes_of(static_cast<size_t>(state.range(0)));
  RunningSha256 sha256;
  Md5 md5;
  for (auto _ : state) {
    if (one_pass) {
      sha256.update_with(md5, bytes);
    } else {
      sha256.update(bytes);
      md5.update(bytes);
    }
  }
  set_bytes(state);
}
BENCHMARK_CAPTURE(sha256_and_md5, one_after_the_other, false)->Arg(64 << 10);
BENCHMARK_CAPTURE(sha256_and_md5, in_one_pass, true)->Arg(64 << 10);

void signature_hmac(benchmark::State& state) {
  const auto key = bytes_of(32), text = bytes_of(160);
  for (auto _ : state) benchmark::DoNotOptimize(hmac_sha256(key, text));
}
BENCHMARK(signature_hmac);

void verify_signature(benchmark::State& state) {
  const auth::Credentials keys{.access_key = "AKBENCH", .secret_key = "secret", .session_token = {}};
  const auth::RootCredentials store(keys);
  const auth::Verifier verifier(store, system_clock(), {});
  std::vector<std::pair<std::string, std::string>> headers{{"host", "127.0.0.1:9000"}};
  auth::sign(keys, "us-east-1", "s3", system_clock(), "GET", "/bucket/some/key", "", "UNSIGNED-PAYLOAD", headers);
  std::vector<auth::HeaderView> views;
  for (const auto& [name, value] : headers) views.push_back({name, value});
  for (auto _ : state) {
    auto verified = verifier.verify({"GET", "/bucket/some/key", "", views});
    if (!verified) state.SkipWithError("the signature does not match");
  }
}
BENCHMARK(verify_signature);

struct Entry final : cache::Entry {
  size_t held_bytes() const override { return 4096; }
};

void hot_tier_find(benchmark::State& state) {
  const auto tier = cache::HotTier::create({.capacity = 64 * MiB});
  const cache::Key key{"bucket", "some/key/of/usual/length"};
  tier->insert(tier->fill_token(key), key, std::make_shared<Entry>());
  for (auto _ : state) {
    if (tier->find(key) == nullptr) state.SkipWithError("it is gone");
  }
}
BENCHMARK(hot_tier_find);

void arena_lease(benchmark::State& state) {
  const auto arena = std::move(*memory::Arena::create(64 * MiB));
  for (auto _ : state) {
    auto lease = arena->lease(static_cast<size_t>(state.range(0)));
    if (!lease) state.SkipWithError("the arena is full");
  }
}
BENCHMARK(arena_lease)->Arg(4096)->Arg(1 << 20);

void budget_charge(benchmark::State& state) {
  const auto arena = std::move(*memory::Arena::create(64 * MiB));
  const auto size = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    memory::Share share(*arena, "127.0.0.1", size);
    auto charge = share.try_take(size);
    if (!charge) state.SkipWithError("refused");
  }
}
BENCHMARK(budget_charge)->Arg(4096)->Arg(1 << 20);

}  // namespace
}  // namespace verbena
